// Texts that are one token each, whatever the model would make of them: the field "added_tokens" of
// tokenizer.json, and what files beside it declare (declared_tokens.h).
//
// Owns: finding them, in the text as it is and again in the normalized text; their ids.
// Does not own: the text between them.
//
// Invariants:
//  1. Of tokens that start at one place the longest is found; what is found is not looked at again.
//  2. A token has the id that the vocabulary gives its text; one without is counted on from the
//     size of the vocabulary, as tokenizers does it. The field "id" decides nothing.
//  3. No token is empty: where the spaces that the one before took are all that one has, it is not
//     there.
// Thread-safety: const members may be called from any thread.
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
  std::string where = {};    // the file and the field that declare it, for errors
  std::string pattern = {};  // what is looked for: normalized, if it is

  bool is_same(const AddedToken& other) const {
    return content == other.content && single_word == other.single_word &&
           strip_left == other.strip_left && strip_right == other.strip_right &&
           normalized == other.normalized && special == other.special;
  }
};

// An item of "added_tokens".
AddedToken read_added_token(const JsonField& item);

struct TokenDeclarations {
  // Those that are added at once, in their order: the ids of new ones count on from those before.
  std::vector<std::vector<AddedToken>> batches;
  // Special tokens are not looked for in a text.
  bool split_special = false;
};

// Finds the longest of several texts that stands at a place.
class TextTrie {
 public:
  // Precondition: not empty, not there.
  void insert(std::string_view text, std::int32_t value);
  bool empty() const { return nodes_.empty(); }
  // The first place from `at` on where one stands, with its end and value; false if there is none.
  bool find(std::string_view text, std::size_t at, std::size_t& first, std::size_t& last,
            std::int32_t& value) const;

 private:
  static std::uint64_t key(std::uint32_t node, char byte) {
    return static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(byte);
  }
  std::vector<std::int32_t> nodes_;  // the value that ends there, or -1; the root first
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
  std::array<bool, 256> begins_{};
};

class AddedTokens {
 public:
  // Throws Error(kInput) naming the field.
  AddedTokens(const TokenDeclarations& declared, const Bpe& model, const Normalizer& normalizer);

  // Cuts a text at its tokens: `token` gets their ids, `between` the rest, none of it empty.
  void cut_text(TextPiece text, PieceSink between, FunctionRef<void(std::int32_t)> token) const {
    cut(raw_, text, between, token);
  }
  void cut_normalized(TextPiece text, PieceSink between,
                      FunctionRef<void(std::int32_t)> token) const {
    cut(normalized_, text, between, token);
  }

  const std::unordered_map<std::int32_t, AddedToken>& by_id() const { return by_id_; }
  // -1 if there is none.
  std::int32_t id_of(const std::string& content) const;
  // True for the decoded text of a special token.
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
