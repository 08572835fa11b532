#include "data/sequence_order.h"

#include "base/key_hash.h"
#include "data/permutation.h"

namespace sluice {

DataPosition position_of_step(std::int64_t step, std::int64_t batch_size, const StepsDone& done) {
  return {done.position.sequence + (step - done.steps - 1) * batch_size};
}

namespace data {

std::uint64_t SequenceOrder::at(DataPosition position, std::int64_t ahead) const {
  const auto place = static_cast<std::uint64_t>(position.sequence + ahead);
  const std::uint64_t epoch = place / num_sequences_, i = place % num_sequences_;
  if (!shuffle_) return i;
  const std::uint64_t key = absorb(absorb(0, static_cast<std::uint64_t>(seed_)), epoch);
  return Permutation(num_sequences_, key).at(i);
}

}  // namespace data
}  // namespace sluice
