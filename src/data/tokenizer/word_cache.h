// A bounded cache of words and their ids, cleared when full.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

class WordCache {
 public:
  static constexpr std::size_t kMaxWord = 128;

  // Ids of a word, valid until the next insert(). `first` is null if the word is missing.
  struct Ids {
    const std::int32_t* first = nullptr;
    std::uint32_t count = 0;
  };
  Ids find(std::string_view word, std::uint64_t hash) const {
    for (std::size_t slot = hash & kMask;; slot = (slot + 1) & kMask) {
      const Entry& entry = entries_[slot];
      if (entry.length == 0) return {};
      if (entry.hash == hash && entry.length == word.size() &&
          std::string_view(words_.data() + entry.word, entry.length) == word) {
        return {ids_.data() + entry.ids, entry.count};
      }
    }
  }
  // Precondition: the word is not in the cache, 1 to kMaxWord bytes.
  void insert(std::string_view word, std::uint64_t hash, std::span<const std::int32_t> ids);

 private:
  struct Entry {
    std::uint64_t hash;
    std::uint32_t word, length;  // length 0: empty slot
    std::uint32_t ids, count;
  };
  static constexpr std::size_t kSlots = std::size_t{1} << 16, kMask = kSlots - 1;

  std::vector<Entry> entries_ = std::vector<Entry>(kSlots);
  std::size_t size_ = 0;
  std::string words_;
  std::vector<std::int32_t> ids_;
};

}  // namespace sluice::data
