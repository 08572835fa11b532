// Collects the added tokens of a tokenizer directory, from tokenizer.json and the files beside it,
// in the order in which transformers adds them.
#pragma once

#include <string>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/rebuilt_class.h"
#include "data/tokenizer/tokenizer_settings.h"

namespace sluice::data {

struct DeclaredTokens {
  TokenDeclarations added;
  std::string begin, end, unknown;  // texts of bos_token, eos_token and unk_token, or ""
};

// `file_tokens` is "added_tokens" of tokenizer.json. `rebuilt` is the class that reads it, or null.
// Throws Error(kInput) that names the file and the field.
DeclaredTokens declared_tokens(const JsonField& file_tokens, const Json& vocabulary,
                               const TokenizerSettings& settings, const RebuiltClass* rebuilt);
// Returns only the tokens of tokenizer.json.
std::vector<AddedToken> tokens_of_file(const JsonField& file_tokens);

}  // namespace sluice::data
