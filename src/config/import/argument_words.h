// Reads a command line of a trainer, such as
//   accelerate launch sft.py --learning_rate 2e-5 --bf16 --target_modules q_proj v_proj
#pragma once

#include <string>

#include "base/json.h"

namespace sluice::detail {

// Whether a word of the text begins with "--".
bool has_arguments(const std::string& text);

// Returns one member for each option: true without a value, a list with several. The member
// "launcher" has the options before the program, "arguments" the words that belong to no option.
// Throws Error(kUsage) for an open quote.
Json parse_arguments(const std::string& text, const std::string& file);

}  // namespace sluice::detail
