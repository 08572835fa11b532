// Finds the tokenizer.json of a directory, and reports tokenizers of other forms.
#pragma once

#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice::data {

// Accepts files of any form, such as "tokenizer.model".
bool is_tokenizer_name(std::string_view name);

// Returns "" without a tokenizer. Throws Error(kInput) for another form or a broken link.
std::string tokenizer_in(const std::string& directory);

// `path` is a tokenizer.json or its directory. Errors start with `subject`. Throws Error(kInput) if
// there is none.
std::string tokenizer_at(const std::string& path, const std::string& subject);

// Reads model_type from the file's config.json, or returns "".
std::string model_type_beside(const std::string& tokenizer_file);

}  // namespace sluice::data
