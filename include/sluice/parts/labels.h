// Which labels a next-token loss counts.
// Owns: the rule. Does not own: losses (loss.h). Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace sluice {

// A label that is not counted (torch's and Hugging Face's ignore_index).
inline constexpr std::int64_t kIgnoredLabel = -100;

// Of the labels of one sequence, aligned with its ids: those that are not kIgnoredLabel, apart from
// the first, which nothing predicts.
template <typename Label>
std::int64_t count_labels(std::span<const Label> labels) {
  std::int64_t count = 0;
  for (std::size_t i = 1; i < labels.size(); ++i) count += labels[i] != kIgnoredLabel;
  return count;
}

}  // namespace sluice
