#include "data/sequence_order.h"

#include <algorithm>
#include <utility>

#include "base/key_hash.h"
#include "data/permutation.h"

namespace sluice {

DataPosition position_of_step(std::int64_t step, std::int64_t batch_size, const StepsDone& done) {
  return {done.position.sequence + (step - done.steps - 1) * batch_size};
}

namespace data {

SequenceOrder::SequenceOrder(std::vector<std::uint64_t> sizes, const std::vector<double>& weights,
                             bool shuffle, std::int64_t seed)
    : sizes_(std::move(sizes)),
      shuffle_(shuffle),
      key_(absorb(0, static_cast<std::uint64_t>(seed))) {
  std::uint64_t end = 0;
  for (const std::uint64_t size : sizes_) ends_.push_back(end += size);
  if (!weights.empty()) mixture_.emplace(weights);
}

std::uint64_t SequenceOrder::shuffled(std::uint64_t place, std::uint64_t size,
                                      std::uint64_t key) const {
  const std::uint64_t epoch = place / size, i = place % size;
  return shuffle_ ? Permutation(size, absorb(key, epoch)).at(i) : i;
}

SequenceOrder::Place SequenceOrder::at(DataPosition position, std::int64_t ahead) const {
  const auto place = static_cast<std::uint64_t>(position.sequence + ahead);
  if (mixture_) {
    const auto [entry, turn] = mixture_->at(place);
    return {entry, shuffled(turn, sizes_[entry], absorb(key_, entry))};
  }
  const std::uint64_t index = shuffled(place, num_sequences(), key_);
  const auto entry =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return {entry, index - (ends_[entry] - sizes_[entry])};
}

}  // namespace data
}  // namespace sluice
