// Byte pair encoding (Sennrich, Haddow, Birch: "Neural Machine Translation of Rare Words with
// Subword Units", ACL 2016). Repeatedly merges the adjacent pair of the lowest rank, leftmost
// first. A word of n characters takes O(n log n) steps.
//
// Words are first cut between characters that no merge joins, which does not change the result. So
// SentencePiece models, in which a whole text is one word, use the word cache too.
//
// Threads may share a Bpe if each has its own BpeScratch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/vocabulary.h"
#include "data/tokenizer/word_cache.h"

namespace sluice::data {

struct BpeScratch {
  struct Symbol {
    std::int32_t id, previous, next;
  };
  WordCache characters, bytes;
  std::vector<std::int32_t> ids;
  std::vector<std::uint32_t> ranks;
  std::vector<Symbol> symbols;
  std::vector<std::uint64_t> queue;
};

class Bpe {
 public:
  // Throws Error(kInput) that names the field.
  explicit Bpe(const JsonField& model);

  // Precondition: valid UTF-8, not empty.
  void encode(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const;
  // Encodes bytes as characters of byte_characters.h.
  void encode_bytes(std::string_view word, BpeScratch& scratch,
                    std::vector<std::int32_t>& ids) const;

  std::int32_t id_of(std::string_view token) const { return vocabulary_.find(token); }
  // Indexed by id. "" is a token or an unused id, see has().
  const std::vector<std::string>& tokens() const { return tokens_; }
  bool has(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < has_.size() &&
           has_[static_cast<std::size_t>(id)];
  }
  std::size_t size() const { return vocabulary_.size(); }

 private:
  void read_vocabulary(const JsonField& vocabulary);
  void read_merges(const JsonField& merges);
  void add_merge(const JsonField& field, std::uint32_t rank, const std::string& left,
                 const std::string& right);
  std::int32_t token_of_merge(const JsonField& field, const std::string& token) const;
  void find_joints();

  void encode_part(std::string_view part, BpeScratch& scratch,
                   std::vector<std::int32_t>& ids) const;
  void encode_byte_part(std::string_view part, BpeScratch& scratch,
                        std::vector<std::int32_t>& ids) const;
  void add_units(std::string_view word, std::vector<std::int32_t>& units) const;
  void merge(BpeScratch& scratch) const;
  void merge_few(BpeScratch& scratch) const;
  void merge_many(BpeScratch& scratch) const;
  bool may_join(char32_t left, char32_t right) const;
  bool may_join_bytes(unsigned char left, unsigned char right) const {
    return byte_joints_[left][right >> 6] >> (right & 63) & 1;
  }

  std::string where_;
  TextIds vocabulary_;
  std::vector<std::string> tokens_;
  std::vector<bool> has_;
  MergeTable merges_;
  std::optional<std::string> unknown_;
  std::int32_t unknown_id_ = -1;
  std::string prefix_, suffix_;  // continuing_subword_prefix, end_of_word_suffix
  bool fuse_unknown_ = false, byte_fallback_ = false, ignore_merges_ = false;
  std::array<std::int32_t, 256> fallback_;  // ids of "<0x00>" to "<0xFF>", or -1

  // Characters that are tokens, and pairs that some merge joins.
  std::unique_ptr<CodepointBits> plain_;
  std::array<std::array<std::uint64_t, 2>, 128> ascii_joints_{};
  std::unordered_set<std::uint64_t> joints_;

  // Ids of single bytes, and pairs of bytes that some merge joins. Only if every byte has a token.
  bool has_byte_units_ = false;
  std::array<std::int32_t, 256> byte_units_;
  std::array<std::array<std::uint64_t, 4>, 256> byte_joints_{};
  // With ignore_merges: tokens by their bytes.
  TextIds byte_vocabulary_;
};

}  // namespace sluice::data
