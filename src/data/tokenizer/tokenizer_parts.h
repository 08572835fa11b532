// Parses a tokenizer.json, alone or with the configuration files beside it.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/tokenizer_settings.h"

namespace sluice::data {

struct TokenizerParts {
  std::string file;              // for error messages
  Json document;                 // tokenizer.json; its transformers class may have replaced parts
  TokenDeclarations added = {};  // all added tokens; replaces "added_tokens" of `document`
  std::string begin = {}, end = {};  // bos_token and eos_token, or ""
  std::string beside = {};           // digest of what other files changed, or ""
};

// Both functions throw Error(kInput) that names the file and the field.
TokenizerParts parts_of_file(std::string_view json, const std::string& file_name);
TokenizerParts parts_of_directory(const TokenizerTexts& texts);

}  // namespace sluice::data
