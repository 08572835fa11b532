// A tokenizer.json as it is read: alone, or with the files beside it, as transformers does it.
// Thread-safety: pure functions, but for reading files.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/tokenizer_settings.h"

namespace sluice::data {

struct TokenizerParts {
  std::string file;                  // for errors
  Json document;                     // the tokenizer.json, with what its class puts into its place
  TokenDeclarations added = {};      // in place of its "added_tokens"
  std::string begin = {}, end = {};  // what bos_token and eos_token are; "" for none
  std::string beside = {};           // a digest of what the files beside it change; "" for nothing
};

// These throw Error(kInput) naming the file and the field.
TokenizerParts parts_of_file(std::string_view json, const std::string& file_name);
TokenizerParts parts_of_directory(const TokenizerTexts& texts);

}  // namespace sluice::data
