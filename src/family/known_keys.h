// Keys that transformers and PEFT know, and what is done with each: nothing that changes numbers is
// ignored.
//
// Owns: the tables. tests/oracle/check_keys.py holds them against the classes of both libraries. A
// key that is not in them changes nothing there either.
// Does not own: the meaning of the keys (decoder_config.h, gpt2.h, ../lora/adapter_config.h).
// Thread-safety: constant.
#pragma once

#include <span>
#include <string>

#include "family/config_reader.h"

namespace sluice::detail {

enum class KeyUse {
  kRead,      // acted on, or refused, by who reads the family's configuration
  kHarmless,  // no value of it changes a loss or a gradient
  kRefused,   // other values than the neutral ones do, and are not implemented
};

struct KnownKey {
  const char* name;
  KeyUse use;
  const char* families = "";  // Names with spaces between; "" for all.
  const char* neutral = "";   // JSON list of what may be written; of kRefused.
};

// config.json. A key has one row for a family.
std::span<const KnownKey> config_keys();
// adapter_config.json.
std::span<const KnownKey> adapter_keys();

// nullptr: not known.
const KnownKey* find_known_key(std::span<const KnownKey> keys, const std::string& name,
                               const std::string& family = {});

// Throws Error(kInput) by the name of the first key of kRefused whose value is not neutral.
void require_neutral_keys(const ConfigReader& config, std::span<const KnownKey> keys,
                          const std::string& family = {});

}  // namespace sluice::detail
