// A keyed permutation of [0, size): at(i) in constant memory and time.
// Thread-safety: const members may be called from any thread.
#pragma once

#include <cstdint>

namespace sluice::data {

// With equal keys equal on every machine. A balanced Feistel network over the next even number of
// bits, walked until it lands inside (Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
// CT-RSA 2002).
class Permutation {
 public:
  // Precondition: size >= 1.
  Permutation(std::uint64_t size, std::uint64_t key);
  // Precondition: i < size.
  std::uint64_t at(std::uint64_t i) const;

 private:
  std::uint64_t size_, key_;
  int half_bits_;
};

}  // namespace sluice::data
