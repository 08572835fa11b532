// Finds the tokenizer.json of a directory, or the tokenizer of another form that it has instead.
//
// Owns: the names of files that hold tokenizers. Does not own: reading a tokenizer.json
// (tokenizer_parts.h). Thread-safety: pure functions of the file system.
#pragma once

#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice::data {

// Whether a file of this name belongs to a tokenizer of any form, such as "tokenizer.model".
bool is_tokenizer_name(std::string_view name);

// The tokenizer.json of a directory, or "" if it has no tokenizer file or does not exist. Throws
// Error(kInput) with the name of a tokenizer of another form or of a broken link.
std::string tokenizer_in(const std::string& directory);

// The tokenizer.json at a path that a user gave, which is the file or its directory. subject: start
// of the message, such as "`data.tokenizer`: ". Throws Error(kInput) if there is none.
std::string tokenizer_at(const std::string& path, const std::string& subject);

// The model_type of the config.json beside a tokenizer.json, or "".
std::string model_type_beside(const std::string& tokenizer_file);

}  // namespace sluice::data
