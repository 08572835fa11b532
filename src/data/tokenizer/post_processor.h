// The ids that the field "post_processor" of tokenizer.json adds before and after a single text.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizer/json_field.h"

namespace sluice::data {

struct PostProcessor {
  // Throws Error(kInput) for a malformed field or an unsupported part.
  static PostProcessor read(const JsonField& field);

  std::vector<std::int32_t> before, after;
};

}  // namespace sluice::data
