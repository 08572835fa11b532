// Parses a tokenizer.json, alone or with the files beside it like transformers.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/tokenizer_settings.h"

namespace sluice::data {

struct TokenizerParts {
  std::string file;                  // for errors
  Json document;                     // tokenizer.json after the class has replaced its parts
  TokenDeclarations added = {};      // replaces "added_tokens"
  std::string begin = {}, end = {};  // bos_token and eos_token, or ""
  std::string beside = {};           // digest of the changes that other files make, or ""
};

// These throw Error(kInput) that names the file and the field.
TokenizerParts parts_of_file(std::string_view json, const std::string& file_name);
TokenizerParts parts_of_directory(const TokenizerTexts& texts);

}  // namespace sluice::data
