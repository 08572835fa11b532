// The order in which training reads sequences: every epoch reads each once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/mixture.h"
#include "sluice/data.h"

namespace sluice {

// Returns the first position of a step (1-based) if steps after `done` read batch_size sequences
// each over all replicas. A changed batch size neither repeats nor skips sequences.
DataPosition position_of_step(std::int64_t step, std::int64_t batch_size,
                              const StepsDone& done = {});

}  // namespace sluice

namespace sluice::data {

class SequenceOrder {
 public:
  // `sizes` holds each entry's number of sequences, at least 1. With `weights`, each entry has
  // separate epochs, otherwise all form one list. With `shuffle`, every epoch is permuted
  // differently.
  SequenceOrder(std::vector<std::uint64_t> sizes, const std::vector<double>& weights, bool shuffle,
                std::int64_t seed);

  struct Place {
    std::size_t entry = 0;
    std::uint64_t sequence = 0;  // index within the entry
    friend bool operator==(const Place&, const Place&) = default;
  };
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
