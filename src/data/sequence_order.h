// In which order sequences are used: epoch after epoch, each of them every sequence once.
// Thread-safety: const members may be called from any thread.
#pragma once

#include <cstdint>

#include "sluice/data.h"

namespace sluice::data {

class SequenceOrder {
 public:
  // shuffle: every epoch is a permutation of its own, keyed by the seed; else they are in order.
  // Precondition: num_sequences >= 1.
  SequenceOrder(std::uint64_t num_sequences, bool shuffle, std::int64_t seed)
      : num_sequences_(num_sequences), shuffle_(shuffle), seed_(seed) {}

  // The number of the sequence that is `ahead` places after `position`.
  std::uint64_t at(DataPosition position, std::int64_t ahead) const;

 private:
  std::uint64_t num_sequences_;
  bool shuffle_;
  std::int64_t seed_;
};

}  // namespace sluice::data
