// Collects the added tokens of tokenizer.json and other files, in transformers' order.
#pragma once

#include <string>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/rebuilt_class.h"
#include "data/tokenizer/tokenizer_settings.h"

namespace sluice::data {

struct DeclaredTokens {
  TokenDeclarations added;
  std::string begin, end, unknown;  // texts of bos_token, eos_token and unk_token
};

// `file_tokens` is "added_tokens" of tokenizer.json. `rebuilt` may be null. Throws Error(kInput)
// that names the file and the field.
DeclaredTokens declared_tokens(const JsonField& file_tokens, const Json& vocabulary,
                               const TokenizerSettings& settings, const RebuiltClass* rebuilt);
std::vector<AddedToken> tokens_of_file(const JsonField& file_tokens);

}  // namespace sluice::data
