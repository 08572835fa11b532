// Finds the tokenizer.json of a directory, and reports tokenizers of other forms.
#pragma once

#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice::data {

// Accepts files of any form, such as "tokenizer.model".
bool is_tokenizer_name(std::string_view name);

// Returns "" if there is no tokenizer. Throws Error(kInput) for another form or a broken link.
std::string tokenizer_in(const std::string& directory);

// `path` is a tokenizer.json or its directory. `subject` starts the error message. Throws
// Error(kInput) if there is none.
std::string tokenizer_at(const std::string& path, const std::string& subject);

// Reads model_type from the config.json beside the file. Returns "" if there is none.
std::string model_type_beside(const std::string& tokenizer_file);

}  // namespace sluice::data
