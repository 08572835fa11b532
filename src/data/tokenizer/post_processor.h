// Adds special tokens around a text with "post_processor" of tokenizer.json.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizer/json_field.h"

namespace sluice::data {

struct PostProcessor {
  // Throws Error(kInput) for an unsupported part.
  static PostProcessor read(const JsonField& field);

  std::vector<std::int32_t> before, after;
};

}  // namespace sluice::data
