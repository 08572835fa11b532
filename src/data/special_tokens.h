// Which tokens begin and end a text, as the files beside a tokenizer.json name them.
//
// Owns: where they are looked for: bos_token and eos_token of tokenizer_config.json, of
// special_tokens_map.json, then bos_token_id and eos_token_id of config.json.
// Thread-safety: a pure function of the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "sluice/tokenizer.h"

namespace sluice::data {

// Of a tokenizer.json and of each file beside it.
inline constexpr std::size_t kMaxTokenizerBytes = std::size_t{256} << 20;

// A token, by its text or by its id; neither: none is named.
struct SpecialToken {
  std::string text;
  std::optional<std::int32_t> id;
  // "" for none.
  std::string text_in(const Tokenizer& tokenizer) const;
};

struct SpecialTokens {
  SpecialToken begin, end;
};

// file: the tokenizer.json. Throws Error(kInput) naming a file beside it that is malformed.
SpecialTokens read_special_tokens(const std::string& file);

}  // namespace sluice::data
