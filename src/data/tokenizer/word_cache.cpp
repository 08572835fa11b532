#include "data/tokenizer/word_cache.h"

#include <algorithm>

namespace sluice::data {

void WordCache::insert(std::string_view word, std::uint64_t hash,
                       std::span<const std::int32_t> ids) {
  if (4 * (size_ + 1) > 3 * kSlots) {
    std::fill(entries_.begin(), entries_.end(), Entry{});
    words_.clear();
    ids_.clear();
    size_ = 0;
  }
  std::size_t slot = hash & kMask;
  while (entries_[slot].length != 0) slot = (slot + 1) & kMask;
  entries_[slot] = {
      hash, static_cast<std::uint32_t>(words_.size()), static_cast<std::uint32_t>(word.size()),
      static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint32_t>(ids.size())};
  words_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++size_;
}

}  // namespace sluice::data
