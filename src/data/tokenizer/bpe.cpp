#include "data/tokenizer/bpe.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/format.h"
#include "data/tokenizer/byte_characters.h"
#include "data/tokenizer/utf8.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

// For at most this many units, scanning all pairs is faster than a queue.
constexpr std::size_t kFew = 40;
// Shorter byte words are looked up whole in the cache.
constexpr std::size_t kWholeWord = 32;
constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

std::uint64_t pair_key(char32_t left, char32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | right;
}

char32_t first_character(std::string_view text) {
  std::size_t at = 0;
  return next_codepoint(text, at);
}

char32_t last_character(std::string_view text) {
  std::size_t at = previous_character(text, text.size());
  return next_codepoint(text, at);
}

std::string fallback_token(unsigned byte) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

}  // namespace

Bpe::Bpe(const JsonField& model) : where_(model.where()) {
  const JsonField dropout = model["dropout"];
  if (!dropout.is_null() && !(dropout.json().is_number() && dropout.json().number() == 0.0)) {
    dropout.refuse("dropping merges at random");
  }
  if (!model["unk_token"].is_null()) unknown_ = model["unk_token"].text();
  prefix_ = model["continuing_subword_prefix"].text_or("");
  suffix_ = model["end_of_word_suffix"].text_or("");
  fuse_unknown_ = model["fuse_unk"].flag_or(false);
  byte_fallback_ = model["byte_fallback"].flag_or(false);
  ignore_merges_ = model["ignore_merges"].flag_or(false);
  read_vocabulary(model["vocab"]);
  read_merges(model["merges"]);
  if (unknown_) unknown_id_ = vocabulary_.find(*unknown_);
  for (unsigned byte = 0; byte < 256; ++byte)
    fallback_[byte] = vocabulary_.find(fallback_token(byte));
  find_joints();
}

void Bpe::read_vocabulary(const JsonField& vocabulary) {
  if (!vocabulary.json().is_object()) vocabulary.malformed("an object of tokens and their ids");
  vocabulary_.reserve(vocabulary.json().size());
  for (const auto& [token, value] : vocabulary.json().members()) {
    // Avoids building a JsonField and its name per vocabulary entry.
    const auto number = value.is_number_unsigned() ? value.unsigned_integer() : kMaxTokenId + 1;
    // throws for a bad id
    if (number > static_cast<std::uint64_t>(kMaxTokenId)) vocabulary[token].token_id();
    const auto id = static_cast<std::int32_t>(number);
    if (token.size() > kMaxTokenBytes) {
      vocabulary.refuse(formatted("a token of {} bytes", token.size()));
    }
    const auto index = static_cast<std::size_t>(id);
    if (index >= tokens_.size()) {
      tokens_.resize(index + 1);
      has_.resize(index + 1);
    }
    if (has_[index])
      vocabulary[token].refuse("a token with the id of another token, '" + tokens_[index] + "',");
    has_[index] = true;
    tokens_[index] = token;
    vocabulary_.insert(token, id);
  }
}

void Bpe::read_merges(const JsonField& merges) {
  if (!merges.json().is_array()) merges.malformed("an array of merges");
  const Json::List& list = merges.json().list();
  merges_.reserve(list.size());
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& entry = list[i];
    const auto malformed = [&] {
      merges.item(i).malformed("two tokens, as \"a b\" or [\"a\", \"b\"]");
    };
    if (entry.is_string()) {
      const std::string& pair = entry.text();
      if (pair.starts_with("#version")) continue;  // first line of a merges.txt
      const std::size_t space = pair.find(' ');
      if (space == std::string::npos || pair.find(' ', space + 1) != std::string::npos) malformed();
      add_merge(merges, rank++, pair.substr(0, space), pair.substr(space + 1));
    } else if (entry.is_array() && entry.size() == 2 && entry.list()[0].is_string() &&
               entry.list()[1].is_string()) {
      add_merge(merges, rank++, entry.list()[0].text(), entry.list()[1].text());
    } else {
      malformed();
    }
  }
}

std::int32_t Bpe::token_of_merge(const JsonField& field, const std::string& token) const {
  const std::int32_t id = vocabulary_.find(token);
  if (id >= 0) return id;
  throw Error(ErrorKind::kInput,
              {.what = "a merge has the token '" + token + "', which is not in the vocabulary",
               .where = field.where(),
               .remedy = "add the token or take the merge out"});
}

void Bpe::add_merge(const JsonField& field, std::uint32_t rank, const std::string& left,
                    const std::string& right) {
  const std::int32_t left_id = token_of_merge(field, left), right_id = token_of_merge(field, right);
  if (right.size() < prefix_.size())
    field.refuse("a merge with '" + right + "', shorter than continuing_subword_prefix,");
  const std::int32_t id = token_of_merge(field, left + right.substr(prefix_.size()));
  merges_.set(left_id, right_id, {rank, id});
  if (left.empty() || right.empty()) return;
  const char32_t before = last_character(left), after = first_character(right);
  joints_.insert(pair_key(before, after));
}

void Bpe::find_joints() {
  CodepointRanges plain;
  for (const std::string& token : tokens_) {
    if (token.empty() || utf8_length(token.front()) != token.size()) continue;
    plain.push_back({first_character(token), first_character(token)});
  }
  plain_ = std::make_unique<CodepointBits>(joined(std::move(plain)));
  has_byte_units_ = prefix_.empty() && suffix_.empty();
  for (unsigned byte = 0; byte < 256; ++byte) {
    byte_units_[byte] = vocabulary_.find(byte_characters()[byte]);
    has_byte_units_ = has_byte_units_ && byte_units_[byte] >= 0;
  }
  for (const std::uint64_t pair : joints_) {
    const auto left = static_cast<char32_t>(pair >> 32), right = static_cast<char32_t>(pair);
    if (left < 128 && right < 128)
      ascii_joints_[left][right >> 6] |= std::uint64_t{1} << (right & 63);
    const auto left_byte = byte_of_character(left), right_byte = byte_of_character(right);
    if (left_byte && right_byte)
      byte_joints_[*left_byte][*right_byte >> 6] |= std::uint64_t{1} << (*right_byte & 63);
  }
  if (!has_byte_units_ || !ignore_merges_) return;
  byte_vocabulary_.reserve(tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (!has_[id]) continue;
    if (const auto bytes = bytes_of_characters(tokens_[id]))
      byte_vocabulary_.insert(*bytes, static_cast<std::int32_t>(id));
  }
}

bool Bpe::may_join(char32_t left, char32_t right) const {
  if (!plain_->has(left) || !plain_->has(right)) return true;
  if (left < 128 && right < 128) return ascii_joints_[left][right >> 6] >> (right & 63) & 1;
  return joints_.contains(pair_key(left, right));
}

void Bpe::encode(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const {
  if (ignore_merges_) {
    if (const std::int32_t id = vocabulary_.find(word); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  if (!prefix_.empty() || !suffix_.empty()) {
    encode_part(word, scratch, ids);
    return;
  }
  std::size_t begin = 0, at = 0;
  char32_t previous = next_codepoint(word, at);
  while (at < word.size()) {
    const std::size_t start = at;
    const char32_t c = next_codepoint(word, at);
    if (!may_join(previous, c)) {
      encode_part(word.substr(begin, start - begin), scratch, ids);
      begin = start;
    }
    previous = c;
  }
  encode_part(word.substr(begin), scratch, ids);
}

void Bpe::encode_bytes(std::string_view word, BpeScratch& scratch,
                       std::vector<std::int32_t>& ids) const {
  if (!has_byte_units_) {
    std::string characters;
    append_byte_characters(characters, word);
    encode(characters, scratch, ids);
    return;
  }
  if (ignore_merges_) {
    if (const std::int32_t id = byte_vocabulary_.find(word); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  std::size_t begin = 0;
  for (std::size_t at = 1; word.size() > kWholeWord && at < word.size(); ++at) {
    if (may_join_bytes(static_cast<unsigned char>(word[at - 1]),
                       static_cast<unsigned char>(word[at])))
      continue;
    encode_byte_part(word.substr(begin, at - begin), scratch, ids);
    begin = at;
  }
  encode_byte_part(word.substr(begin), scratch, ids);
}

void Bpe::encode_part(std::string_view part, BpeScratch& scratch,
                      std::vector<std::int32_t>& ids) const {
  const bool kept = part.size() <= WordCache::kMaxWord;
  const std::uint64_t hash = kept ? hash_bytes(part) : 0;
  if (kept) {
    if (const WordCache::Ids known = scratch.characters.find(part, hash); known.first) {
      ids.insert(ids.end(), known.first, known.first + known.count);
      return;
    }
  }
  scratch.ids.clear();
  add_units(part, scratch.ids);
  merge(scratch);
  if (kept && !scratch.ids.empty()) scratch.characters.insert(part, hash, scratch.ids);
  ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
}

void Bpe::encode_byte_part(std::string_view part, BpeScratch& scratch,
                           std::vector<std::int32_t>& ids) const {
  const bool kept = part.size() <= WordCache::kMaxWord;
  const std::uint64_t hash = kept ? hash_bytes(part) : 0;
  if (kept) {
    if (const WordCache::Ids known = scratch.bytes.find(part, hash); known.first) {
      ids.insert(ids.end(), known.first, known.first + known.count);
      return;
    }
  }
  scratch.ids.clear();
  for (const char byte : part) scratch.ids.push_back(byte_units_[static_cast<unsigned char>(byte)]);
  merge(scratch);
  if (kept && !scratch.ids.empty()) scratch.bytes.insert(part, hash, scratch.ids);
  ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
}

void Bpe::add_units(std::string_view word, std::vector<std::int32_t>& units) const {
  bool unknown = false;  // an unknown token is still to be added
  std::string affixed;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t start = at;
    at += utf8_length(word[at]);
    std::string_view unit = word.substr(start, at - start);
    const bool continues = start > 0 && !prefix_.empty(),
               ends = at == word.size() && !suffix_.empty();
    if (continues || ends) {
      affixed = (continues ? prefix_ : "") + std::string(unit) + (ends ? suffix_ : "");
      unit = affixed;
    }
    if (const std::int32_t id = vocabulary_.find(unit); id >= 0) {
      if (unknown) units.push_back(unknown_id_);
      unknown = false;
      units.push_back(id);
      continue;
    }
    // As in tokenizers, byte tokens come before the pending unknown token.
    if (byte_fallback_) {
      const auto token = [this](char byte) { return fallback_[static_cast<unsigned char>(byte)]; };
      if (std::all_of(unit.begin(), unit.end(), [&](char byte) { return token(byte) >= 0; })) {
        for (const char byte : unit) units.push_back(token(byte));
        continue;
      }
    }
    if (!unknown_) continue;  // no unknown token: drop the character
    if (unknown_id_ < 0) {
      throw Error(ErrorKind::kInput,
                  {.what = "a text has a character outside the vocabulary, which has no token '" +
                           *unknown_ + "' for it either",
                   .where = where_,
                   .remedy = "add 'unk_token' to the vocabulary"});
    }
    if (unknown && !fuse_unknown_) units.push_back(unknown_id_);
    unknown = true;
  }
  if (unknown) units.push_back(unknown_id_);
}

void Bpe::merge(BpeScratch& scratch) const {
  if (scratch.ids.size() < 2) return;
  scratch.ids.size() <= kFew ? merge_few(scratch) : merge_many(scratch);
}

void Bpe::merge_few(BpeScratch& scratch) const {
  std::vector<std::int32_t>& ids = scratch.ids;
  std::vector<std::uint32_t>& ranks = scratch.ranks;  // rank of the pair that starts here
  const auto rank_at = [&](std::size_t i) {
    const Merge* merge = merges_.find(ids[i], ids[i + 1]);
    return merge ? merge->rank : kNoRank;
  };
  ranks.resize(ids.size() - 1);
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = rank_at(i);
  while (!ranks.empty()) {
    const auto lowest = std::min_element(ranks.begin(), ranks.end());
    if (*lowest == kNoRank) return;
    const auto at = static_cast<std::size_t>(lowest - ranks.begin());
    ids[at] = merges_.find(ids[at], ids[at + 1])->id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    ranks.erase(lowest);
    if (at < ranks.size()) ranks[at] = rank_at(at);
    if (at > 0) ranks[at - 1] = rank_at(at - 1);
  }
}

void Bpe::merge_many(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  std::vector<std::uint64_t>& queue = scratch.queue;  // rank << 32 | position
  const auto count = static_cast<std::int32_t>(scratch.ids.size());
  symbols.clear();
  queue.clear();
  for (std::int32_t i = 0; i < count; ++i) {
    symbols.push_back(
        {scratch.ids[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }
  const auto symbol = [&](std::int32_t i) -> BpeScratch::Symbol& {
    return symbols[static_cast<std::size_t>(i)];
  };
  const auto find = [&](std::int32_t i) {
    return merges_.find(symbol(i).id, symbol(symbol(i).next).id);
  };
  const auto key = [](const Merge* merge, std::int32_t i) {
    return static_cast<std::uint64_t>(merge->rank) << 32 | static_cast<std::uint32_t>(i);
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) {
    if (const Merge* merge = find(i)) queue.push_back(key(merge, i));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto push = [&](std::int32_t i) {
    if (i < 0 || symbol(i).next < 0) return;
    if (const Merge* merge = find(i)) {
      queue.push_back(key(merge, i));
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
  };
  constexpr std::int32_t kGone = -1;
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint64_t top = queue.back();
    queue.pop_back();
    const auto at = static_cast<std::int32_t>(top & 0xFFFFFFFFu);
    if (symbol(at).id == kGone || symbol(at).next < 0) continue;
    const Merge* merge = find(at);
    if (!merge || merge->rank != top >> 32) continue;  // outdated: the pair has changed
    const std::int32_t right = symbol(at).next;
    symbol(at).id = merge->id;
    symbol(at).next = symbol(right).next;
    symbol(right).id = kGone;
    if (symbol(at).next >= 0) symbol(symbol(at).next).previous = at;
    push(symbol(at).previous);
    push(at);
  }
  scratch.ids.clear();
  for (std::int32_t i = 0; i >= 0; i = symbol(i).next) scratch.ids.push_back(symbol(i).id);
}

}  // namespace sluice::data
