// A keyed permutation of [0, size) with constant memory and time per lookup.
#pragma once

#include <cstdint>

namespace sluice::data {

// Gives equal results on every machine. Cycle-walks a balanced Feistel network (Black and Rogaway,
// "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
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
