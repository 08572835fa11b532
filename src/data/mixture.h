// Chooses a data entry for each place of an endless sequence, in proportion to the entries' shares.
//   1. In the first n places, an entry with share s occurs s * n times, with an error below one (R.
//      Tijdeman, "The chairman assignment problem", Discrete Mathematics 32, 1980: at most 1 - 1 /
//      (2k - 2) for k entries).
//   2. The order repeats after at most 65,536 places, the common denominator of the shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::data {

class Mixture {
 public:
  // Precondition: 1 to kMaxEntries weights, positive and finite.
  explicit Mixture(const std::vector<double>& weights);
  static constexpr std::size_t kMaxEntries = 1024;

  struct Turn {
    std::size_t entry = 0;
    std::uint64_t number = 0;  // earlier places of the entry
  };
  Turn at(std::uint64_t place) const;

  const std::vector<std::uint32_t>& turns() const { return turns_; }
  std::uint64_t period() const { return order_.size(); }

 private:
  struct Slot {
    std::uint32_t entry, number;
  };
  std::vector<std::uint32_t> turns_;
  std::vector<Slot> order_;
};

}  // namespace sluice::data
