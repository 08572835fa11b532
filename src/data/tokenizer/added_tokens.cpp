#include "data/tokenizer/added_tokens.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data {
namespace {

// Limits the search at each position of a text.
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

AddedToken read_added_token(const JsonField& item) {
  AddedToken token = {.content = item["content"].text(),
                      .single_word = item["single_word"].flag(),
                      .strip_left = item["lstrip"].flag(),
                      .strip_right = item["rstrip"].flag(),
                      .normalized = item["normalized"].flag(),
                      .special = item["special"].flag(),
                      .where = item.where()};
  item["id"].token_id();
  return token;
}

AddedTokens::AddedTokens(const TokenDeclarations& declared, const Bpe& model,
                         const Normalizer& normalizer)
    : split_special_(declared.split_special) {
  EncodeScratch scratch;
  for (const std::vector<AddedToken>& batch : declared.batches) {
    auto next_id = static_cast<std::int64_t>(model.size());
    for (const auto& [id, token] : by_id_) next_id = std::max<std::int64_t>(next_id, id + 1);
    for (const AddedToken& token : batch) add(token, model, normalizer, scratch, next_id);
  }
  std::map<std::string_view, std::int32_t> seen[2];
  for (const auto& [id, token] : by_id_) {
    if (!seen[token.normalized].emplace(token.pattern, id).second) {
      JsonField::refuse_at(token.where,
                           "a second added token with the text '" + token.pattern + "'");
    }
    (token.normalized ? normalized_ : raw_).insert(token.pattern, id);
  }
}

void AddedTokens::add(AddedToken token, const Bpe& model, const Normalizer& normalizer,
                      EncodeScratch& scratch, std::int64_t& next_id) {
  const auto refuse = [&](const std::string& what) { JsonField::refuse_at(token.where, what); };
  const auto refuse_length = [&](const std::string& text) {
    if (text.size() > kMaxAddedBytes) refuse(formatted("a token of {} bytes", text.size()));
  };
  if (token.content.empty()) return;
  refuse_length(token.content);
  token.pattern = token.content;
  if (token.normalized && !normalizer.is_identity()) {
    OwnedPiece piece{token.content, 0};
    scratch.pattern.allow(piece.text.size());
    normalizer.apply(piece, scratch);
    token.pattern = piece.text;
    if (token.pattern.empty()) refuse("an added token that the normalizer reduces to nothing");
    refuse_length(token.pattern);
  }
  std::int32_t id = id_of(token.content);
  if (id < 0) id = model.id_of(token.content);
  if (id < 0) {
    if (next_id > kMaxTokenId) refuse("an id above " + std::to_string(kMaxTokenId));
    id = static_cast<std::int32_t>(next_id++);
  }
  ids_.insert_or_assign(token.content, id);
  if (token.special) special_.insert(token.content);
  by_id_.insert_or_assign(id, std::move(token));
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
    if (split_special_ && special_.contains(token.content)) continue;
    if (token.single_word &&
        (ends_with_word(text.substr(0, first)) || starts_with_word(text.substr(last))))
      continue;
    // Spaces stripped by the previous token are not available.
    if (token.strip_left) first = std::max(first, done);
    while (token.strip_left && first > done && is_space(text, previous_character(text, first))) {
      first = previous_character(text, first);
    }
    while (token.strip_right && last < text.size() && is_space(text, last))
      last += utf8_length(text[last]);
    if (first >= last) continue;
    if (done < first) between(piece.part(done, first));
    emit(id);
    done = last;
  }
  if (done < text.size()) between(piece.part(done, text.size()));
}

}  // namespace sluice::data
