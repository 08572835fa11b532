// The tokens of a directory: those of its tokenizer.json, and those that the files beside it
// declare, in the order in which transformers adds them.
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/rebuilt_class.h"
#include "data/tokenizer/tokenizer_settings.h"

namespace sluice::data {

struct DeclaredTokens {
  TokenDeclarations added;
  std::string begin, end, unknown;  // the texts of bos_token, eos_token, unk_token; "" for none
};

// file_tokens: the field "added_tokens" of tokenizer.json. rebuilt: the class that it is read with,
// null for none. Throws Error(kInput) naming the file and the field.
DeclaredTokens declared_tokens(const JsonField& file_tokens, const Json& vocabulary,
                               const TokenizerSettings& settings, const RebuiltClass* rebuilt);
// Those of tokenizer.json alone.
std::vector<AddedToken> tokens_of_file(const JsonField& file_tokens);

}  // namespace sluice::data
