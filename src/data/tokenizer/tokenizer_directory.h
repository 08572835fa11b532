// The tokenizer of a directory: its tokenizer.json, or the other file that holds one.
//
// Owns: the names of files that hold tokenizers. Does not own: reading a tokenizer.json
// (tokenizer_parts.h). Thread-safety: pure functions of the file system.
#pragma once

#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice::data {

// True if a file of this name belongs to a tokenizer, in any form: "vocab.json", "tokenizer.model".
bool is_tokenizer_name(std::string_view name);

// The tokenizer.json of a directory. "" if the directory has no file of a tokenizer, or does not
// exist. Throws Error(kInput) naming the file that is there instead: of another form, or a link
// that leads nowhere.
std::string tokenizer_in(const std::string& directory);

// The tokenizer.json at a path that a user named: the file itself, or its directory. subject: the
// start of messages, for example "`data.tokenizer`: ". Throws Error(kInput) naming what is there
// instead.
std::string tokenizer_at(const std::string& path, const std::string& subject);

// The model_type of the config.json beside a tokenizer.json; "" where there is none.
std::string model_type_beside(const std::string& tokenizer_file);

}  // namespace sluice::data
