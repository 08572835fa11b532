// A set of ranks that may grow while it is walked in ascending order.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace sluice::detail {

class RankSet {
 public:
  explicit RankSet(int num_ranks)
      : num_ranks_(num_ranks), words_((static_cast<std::size_t>(num_ranks) + 63) / 64) {}

  void insert(int rank) { words_[rank / 64] |= std::uint64_t{1} << (rank % 64); }
  void erase(int rank) { words_[rank / 64] &= ~(std::uint64_t{1} << (rank % 64)); }

  // Returns the smallest member from `from` on, or num_ranks.
  int next(int from) const {
    std::size_t word = static_cast<std::size_t>(from) / 64;
    if (word >= words_.size()) return num_ranks_;
    std::uint64_t bits = words_[word] & (~std::uint64_t{0} << (from % 64));
    while (bits == 0) {
      if (++word == words_.size()) return num_ranks_;
      bits = words_[word];
    }
    return static_cast<int>(word) * 64 + std::countr_zero(bits);
  }

 private:
  int num_ranks_;
  std::vector<std::uint64_t> words_;
};

}  // namespace sluice::detail
