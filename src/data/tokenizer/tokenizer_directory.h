// Finds the tokenizer.json of a directory, and reports tokenizers of other forms.
#pragma once

#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice::data {

// Accepts file names of all tokenizer forms, such as "tokenizer.model".
bool is_tokenizer_name(std::string_view name);

// Returns "" if the directory has no tokenizer file or does not exist. Throws Error(kInput) for a
// tokenizer of another form or a broken link.
std::string tokenizer_in(const std::string& directory);

// `path` is a tokenizer.json or its directory. `subject` starts the error message, for example
// "`data.tokenizer`: ". Throws Error(kInput) if there is none.
std::string tokenizer_at(const std::string& path, const std::string& subject);

// Returns model_type of the config.json beside the file, or "".
std::string model_type_beside(const std::string& tokenizer_file);

}  // namespace sluice::data
