// The trainers whose configurations `sluice config import` reads.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace sluice::detail {

struct TrainerDefault {
  const char* name;  // of the trainer's key
  Json value;
};

struct Trainer {
  const char* option;  // of --from
  const char* name;
  std::vector<std::string> libraries;  // of peer_keys(), in the order in which they are searched
  // What the trainer does where the file says nothing, if it differs from sluice's default.
  std::vector<TrainerDefault> defaults;

  bool is(const char* other) const { return std::string(option) == other; }
};

const std::vector<Trainer>& trainers();

// Throws Error(kUsage) if the keys belong to no trainer. `option` overrides what the keys say.
const Trainer& trainer_of(const Json& settings, const std::string& option, const std::string& file);

}  // namespace sluice::detail
