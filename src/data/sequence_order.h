// In which order sequences are used: epoch after epoch, each of them every sequence once; or, where
// entries of the data have shares, those shares of each, which goes through its own epochs.
// Thread-safety: const members may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/mixture.h"
#include "sluice/data.h"

namespace sluice::data {

class SequenceOrder {
 public:
  // sizes: the sequences of every entry of the data, each at least 1. weights: their shares; none:
  // the sequences of all entries are one list. shuffle: every epoch is a permutation of its own,
  // keyed by the seed, and with shares by the entry; else they are in order.
  SequenceOrder(std::vector<std::uint64_t> sizes, const std::vector<double>& weights, bool shuffle,
                std::int64_t seed);

  struct Place {
    std::size_t entry = 0;
    std::uint64_t sequence = 0;  // number within the entry
    friend bool operator==(const Place&, const Place&) = default;
  };
  // The sequence that is `ahead` places after `position`.
  Place at(DataPosition position, std::int64_t ahead) const;

  std::uint64_t num_sequences() const { return ends_.back(); }

 private:
  std::uint64_t shuffled(std::uint64_t place, std::uint64_t size, std::uint64_t key) const;

  std::vector<std::uint64_t> sizes_, ends_;
  std::optional<Mixture> mixture_;
  bool shuffle_;
  std::uint64_t key_;
};

}  // namespace sluice::data
