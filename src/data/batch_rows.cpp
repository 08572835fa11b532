#include "data/batch_rows.h"

#include <algorithm>
#include <numeric>

namespace sluice::data {

BatchRows::BatchRows(std::int64_t num_rows, std::int64_t seq_len, Padding pad) {
  rows_.num_rows = num_rows;
  rows_.seq_len = seq_len;
  const auto size = static_cast<std::size_t>(num_rows * seq_len);
  rows_.ids.resize(size);
  rows_.labels.resize(size, static_cast<std::int32_t>(kIgnoredLabel));
  if (pad == Padding::kLongest) rows_.lengths.resize(static_cast<std::size_t>(num_rows), 1);
}

void BatchRows::set(std::int64_t row, const Sequence& sequence) {
  const std::size_t size = rows_.ids.size();
  const std::int64_t first = row * rows_.seq_len;
  const auto length = static_cast<std::int64_t>(sequence.ids.size());
  std::copy(sequence.ids.begin(), sequence.ids.end(), rows_.ids.begin() + first);
  std::copy(sequence.labels.begin(), sequence.labels.end(), rows_.labels.begin() + first);
  if (!rows_.lengths.empty()) rows_.lengths[static_cast<std::size_t>(row)] = length;
  if (!sequence.mask.empty()) {
    if (rows_.attention_mask.empty()) rows_.attention_mask.resize(size, 1);
    std::copy(sequence.mask.begin(), sequence.mask.end(), rows_.attention_mask.begin() + first);
  }
  if (sequence.positions.empty()) return;
  if (rows_.position_ids.empty()) {
    rows_.position_ids.resize(size);
    for (std::int64_t other = 0; other < rows_.num_rows; ++other) {
      const auto begin = rows_.position_ids.begin() + other * rows_.seq_len;
      std::iota(begin, begin + rows_.seq_len, 0);
    }
  }
  const auto begin = rows_.position_ids.begin() + first;
  std::copy(sequence.positions.begin(), sequence.positions.end(), begin);
  std::iota(begin + length, begin + rows_.seq_len, 0);
}

}  // namespace sluice::data
