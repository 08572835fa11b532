// Finds the tokenizer.json of a directory, and reports tokenizers in other formats.
#pragma once

#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice::data {

// Accepts all formats, such as "tokenizer.model".
bool is_tokenizer_name(std::string_view name);

// Returns "" without a tokenizer. Throws Error(kInput) for another format or a broken link.
std::string tokenizer_in(const std::string& directory);

// `path` is a tokenizer.json or its directory. Throws Error(kInput), which starts with `subject`,
// if there is none.
std::string tokenizer_at(const std::string& path, const std::string& subject);

// Reads model_type from the config.json beside it, or returns "".
std::string model_type_beside(const std::string& tokenizer_file);

}  // namespace sluice::data
