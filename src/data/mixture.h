// The entry whose turn it is at each place of an endless row, so that each entry has its
// share.
//
// Owns: the entry whose turn it is, and the number of that turn. Does not own: the use of a turn.
// Invariants:
//  1. In every prefix of n places an entry with share s has had less than one turn more or fewer
//     than s * n (R. Tijdeman, "The chairman assignment problem", Discrete Mathematics 32, 1980:
//     at most 1 - 1 / (2k - 2) of k entries).
//  2. Shares are the weights as fractions with a common denominator of at most 65,536: exactly,
//     where there are such, else to 1 / 65,536. The order repeats after as many places as that, so
//     any place is found in constant time and 8 bytes a place of the period.
// Thread-safety: const members may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::data {

class Mixture {
 public:
  // Precondition: 1 to kMaxEntries weights, all above 0 and finite.
  explicit Mixture(const std::vector<double>& weights);
  static constexpr std::size_t kMaxEntries = 1024;

  struct Turn {
    std::size_t entry = 0;
    std::uint64_t number = 0;  // so many turns of this entry come before
  };
  Turn at(std::uint64_t place) const;

  // The turns of a period, by entry.
  const std::vector<std::uint32_t>& turns() const { return turns_; }
  std::uint64_t period() const { return order_.size(); }

 private:
  struct Slot {
    std::uint32_t entry, number;  // entry, and its number in the period
  };
  std::vector<std::uint32_t> turns_;
  std::vector<Slot> order_;
};

}  // namespace sluice::data
