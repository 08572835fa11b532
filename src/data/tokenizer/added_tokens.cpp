#include "data/tokenizer/added_tokens.h"

#include <algorithm>
#include <map>

#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data {
namespace {

// A text is compared with them at every character.
constexpr std::size_t kMaxAddedBytes = 1024;

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  std::size_t at = previous_character(text, text.size());
  return bits_of(CodepointSet::kWholeWord).has(next_codepoint(text, at));
}

bool starts_with_word(std::string_view text) {
  std::size_t at = 0;
  return !text.empty() && bits_of(CodepointSet::kWholeWord).has(next_codepoint(text, at));
}

bool is_space(std::string_view text, std::size_t at) {
  return bits_of(CodepointSet::kWhitespace).has(next_codepoint(text, at));
}

}  // namespace

void TextTrie::insert(std::string_view text, std::int32_t value) {
  if (nodes_.empty()) nodes_.push_back(-1);
  begins_[static_cast<unsigned char>(text.front())] = true;
  std::uint32_t node = 0;
  for (const char byte : text) {
    const auto [it, added] =
        edges_.emplace(key(node, byte), static_cast<std::uint32_t>(nodes_.size()));
    if (added) nodes_.push_back(-1);
    node = it->second;
  }
  nodes_[node] = value;
}

bool TextTrie::find(std::string_view text, std::size_t at, std::size_t& first, std::size_t& last,
                    std::int32_t& value) const {
  if (nodes_.empty()) return false;
  for (; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    std::uint32_t node = 0;
    value = -1;
    for (std::size_t i = at; i < text.size(); ++i) {
      const auto edge = edges_.find(key(node, text[i]));
      if (edge == edges_.end()) break;
      node = edge->second;
      if (nodes_[node] < 0) continue;
      value = nodes_[node];
      last = i + 1;
    }
    if (value >= 0) {
      first = at;
      return true;
    }
  }
  return false;
}

AddedTokens::AddedTokens(const JsonField& field, const Bpe& model, const Normalizer& normalizer) {
  if (field.is_null()) return;
  EncodeScratch scratch;
  auto next_id = static_cast<std::int32_t>(model.size());
  for (const JsonField& item : field.items()) {
    AddedToken token;
    token.content = token.pattern = item["content"].text();
    token.single_word = item["single_word"].flag();
    token.strip_left = item["lstrip"].flag();
    token.strip_right = item["rstrip"].flag();
    token.normalized = item["normalized"].flag();
    token.special = item["special"].flag();
    item["id"].token_id();
    if (token.content.empty()) continue;
    if (token.content.size() > kMaxAddedBytes)
      item.refuse("a token of " + std::to_string(token.content.size()) + " bytes");
    if (token.normalized && !normalizer.is_identity()) {
      OwnedPiece piece{token.content, 0};
      scratch.pattern.allow(piece.text.size());
      normalizer.apply(piece, scratch);
      token.pattern = piece.text;
      if (token.pattern.empty())
        item.refuse("an added token that the normalizer leaves nothing of");
      if (token.pattern.size() > kMaxAddedBytes)
        item.refuse("a token of " + std::to_string(token.pattern.size()) + " bytes");
    }
    std::int32_t id = id_of(token.content);
    if (id < 0) id = model.id_of(token.content);
    if (id < 0) {
      if (next_id > kMaxTokenId) item.refuse("an id above " + std::to_string(kMaxTokenId));
      id = next_id++;
    }
    ids_.insert_or_assign(token.content, id);
    if (token.special) special_.insert(token.content);
    by_id_.insert_or_assign(id, std::move(token));
  }
  std::map<std::string_view, std::int32_t> seen[2];
  for (const auto& [id, token] : by_id_) {
    if (!seen[token.normalized].emplace(token.pattern, id).second) {
      field.refuse("two added tokens with the text '" + token.pattern + "'");
    }
    (token.normalized ? normalized_ : raw_).insert(token.pattern, id);
  }
}

std::int32_t AddedTokens::id_of(const std::string& content) const {
  const auto it = ids_.find(content);
  return it == ids_.end() ? -1 : it->second;
}

void AddedTokens::cut(const TextTrie& trie, TextPiece piece, PieceSink between,
                      FunctionRef<void(std::int32_t)> emit) const {
  const std::string_view text = piece.text;
  std::size_t done = 0, first = 0, last = 0;
  std::int32_t id = -1;
  for (std::size_t at = 0; trie.find(text, at, first, last, id);) {
    at = last;
    const AddedToken& token = by_id_.find(id)->second;
    if (token.single_word &&
        (ends_with_word(text.substr(0, first)) || starts_with_word(text.substr(last))))
      continue;
    // Spaces that the token before has taken are its own.
    while (token.strip_left && first > done && is_space(text, previous_character(text, first))) {
      first = previous_character(text, first);
    }
    while (token.strip_right && last < text.size() && is_space(text, last))
      last += utf8_length(text[last]);
    if (done < first) between(piece.part(done, first));
    emit(id);
    done = last;
  }
  if (done < text.size()) between(piece.part(done, text.size()));
}

}  // namespace sluice::data
