// Parses a tokenizer.json, alone or with the files beside it.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/tokenizer_settings.h"

namespace sluice::data {

struct TokenizerParts {
  std::string file;                  // for error messages
  Json document;                     // parts may be replaced by the class
  TokenDeclarations added = {};      // replaces "added_tokens" of the document
  std::string begin = {}, end = {};  // bos_token and eos_token, or ""
  std::string beside = {};           // digest of changes by other files, or ""
};

// Both throw Error(kInput) that names the file and the field.
TokenizerParts parts_of_file(std::string_view json, const std::string& file_name);
TokenizerParts parts_of_directory(const TokenizerTexts& texts);

}  // namespace sluice::data
