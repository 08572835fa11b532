// Texts that always become a single token: "added_tokens" of tokenizer.json, and tokens declared in
// files beside it. They are found first in the original text, then in the normalized text.
//   1. Among tokens that start at the same place, the longest wins. Matches do not overlap.
//   2. New tokens get ids from the vocabulary's size on, as in tokenizers. The field "id" is
//      ignored.
//   3. A match is dropped if the previous token has stripped all of its spaces.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/text_piece.h"

namespace sluice::data {

struct AddedToken {
  std::string content;
  bool single_word = false, strip_left = false, strip_right = false, normalized = true,
       special = false;
  std::string where = {};    // file and field
  std::string pattern = {};  // text to search for: `content` or its normal form

  bool is_same(const AddedToken& other) const {
    return content == other.content && single_word == other.single_word &&
           strip_left == other.strip_left && strip_right == other.strip_right &&
           normalized == other.normalized && special == other.special;
  }
};

AddedToken read_added_token(const JsonField& item);

struct TokenDeclarations {
  // In the order of adding. New ids continue those of earlier batches.
  std::vector<std::vector<AddedToken>> batches;
  // If set, special tokens in a text are treated as ordinary text.
  bool split_special = false;
};

class TextTrie {
 public:
  void insert(std::string_view text, std::int32_t value);
  bool empty() const { return nodes_.empty(); }
  bool find(std::string_view text, std::size_t at, std::size_t& first, std::size_t& last,
            std::int32_t& value) const;

 private:
  static std::uint64_t key(std::uint32_t node, char byte) {
    return static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(byte);
  }
  std::vector<std::int32_t> nodes_;  // value of the text that ends at the node, or -1
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
  std::array<bool, 256> begins_{};
};

class AddedTokens {
 public:
  // Throws Error(kInput) that names the field.
  AddedTokens(const TokenDeclarations& declared, const Bpe& model, const Normalizer& normalizer);

  // Passes ids of added tokens to `token`, and non-empty text between them to `between`.
  void cut_text(TextPiece text, PieceSink between, FunctionRef<void(std::int32_t)> token) const {
    cut(raw_, text, between, token);
  }
  void cut_normalized(TextPiece text, PieceSink between,
                      FunctionRef<void(std::int32_t)> token) const {
    cut(normalized_, text, between, token);
  }

  const std::unordered_map<std::int32_t, AddedToken>& by_id() const { return by_id_; }
  std::int32_t id_of(const std::string& content) const;
  bool is_special(const std::string& text) const { return special_.contains(text); }

 private:
  void add(AddedToken token, const Bpe& model, const Normalizer& normalizer, EncodeScratch& scratch,
           std::int64_t& next_id);
  void cut(const TextTrie& trie, TextPiece text, PieceSink between,
           FunctionRef<void(std::int32_t)> token) const;

  std::unordered_map<std::int32_t, AddedToken> by_id_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_set<std::string> special_;
  bool split_special_;
  TextTrie raw_, normalized_;
};

}  // namespace sluice::data
