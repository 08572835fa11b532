// Finds the tokenizer.json of a directory, and reports tokenizers in other file formats.
#pragma once

#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice::data {

// Whether a file of this name is a tokenizer in any format, such as "tokenizer.model".
bool is_tokenizer_name(std::string_view name);

// Returns "" if there is no tokenizer. Throws Error(kInput) for another format or a broken link.
std::string tokenizer_in(const std::string& directory);

// `path` is a tokenizer.json or its directory. Throws Error(kInput), with a message that starts
// with `subject`, if there is no tokenizer.
std::string tokenizer_at(const std::string& path, const std::string& subject);

// Returns the model_type in the config.json beside the tokenizer, or "".
std::string model_type_beside(const std::string& tokenizer_file);

}  // namespace sluice::data
