#include "data/permutation.h"

#include <bit>
#include <utility>

#include "base/key_hash.h"

namespace sluice::data {
namespace {

// Four Feistel rounds suffice in theory (Luby and Rackoff), but small domains mix more slowly.
constexpr std::uint64_t kRounds = 12;

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key)
    : size_(size), key_(key), half_bits_((std::bit_width(size - 1) + 1) / 2) {}

std::uint64_t Permutation::at(std::uint64_t i) const {
  if (size_ == 1) return 0;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = i >> half_bits_, right = i & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = absorb(absorb(key_, round), right);
      left = std::exchange(right, (left ^ mixed) & mask);
    }
    i = (left << half_bits_) | right;
  } while (i >= size_);
  return i;
}

}  // namespace sluice::data
