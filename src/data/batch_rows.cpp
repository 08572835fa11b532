#include "data/batch_rows.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace sluice::data {
namespace {

// Truncates or zero-pads one dimension to `size`.
FieldValue resized(const FieldValue& value, std::size_t dimension, std::int64_t size) {
  FieldValue result = value;
  result.sizes[dimension] = size;
  const auto product = [&](std::size_t from, std::size_t to) {
    return std::accumulate(value.sizes.begin() + static_cast<std::ptrdiff_t>(from),
                           value.sizes.begin() + static_cast<std::ptrdiff_t>(to), std::int64_t{1},
                           std::multiplies<>());
  };
  const std::int64_t outer = product(0, dimension);
  const std::int64_t inner = product(dimension + 1, value.sizes.size());
  const std::int64_t before = value.sizes[dimension] * inner, after = size * inner;
  std::visit(
      [&](auto& numbers) {
        std::remove_reference_t<decltype(numbers)> moved(static_cast<std::size_t>(outer * after));
        for (std::int64_t i = 0; i < outer; ++i)
          std::copy_n(numbers.begin() + i * before, std::min(before, after),
                      moved.begin() + i * after);
        numbers = std::move(moved);
      },
      result.numbers);
  return result;
}

}  // namespace

BatchRows::BatchRows(std::int64_t num_rows, const TokenDataOptions& options)
    : masks_padding_(options.masks_padding) {
  rows_.num_rows = num_rows;
  for (const FieldOption& field : options.fields)
    rows_.fields.push_back({field, std::vector<FieldValue>(static_cast<std::size_t>(num_rows))});
  if (!options.tokens) return;
  rows_.seq_len = options.seq_len;
  const auto size = static_cast<std::size_t>(num_rows * rows_.seq_len);
  rows_.ids.resize(size);
  rows_.labels.resize(size, static_cast<std::int32_t>(kIgnoredLabel));
  if (options.data.pad == Padding::kLongest)
    rows_.lengths.resize(static_cast<std::size_t>(num_rows), 1);
}

void BatchRows::set(std::int64_t row, const Sequence& sequence) {
  for (std::size_t i = 0; i < rows_.fields.size(); ++i) {
    FieldRows& field = rows_.fields[i];
    FieldValue value = sequence.fields[i];
    for (std::size_t d = 0; d < value.sizes.size(); ++d) {
      if (field.field.sizes[d] != kRowTokens) continue;
      const auto length = static_cast<std::int64_t>(sequence.ids.size());
      if (value.sizes[d] > length) value = resized(value, d, length);
      if (value.sizes[d] != rows_.seq_len) value = resized(value, d, rows_.seq_len);
    }
    field.rows[static_cast<std::size_t>(row)] = std::move(value);
  }
  if (!sequence.ids.empty()) set_tokens(row, sequence);
}

void BatchRows::set_tokens(std::int64_t row, const Sequence& sequence) {
  const std::size_t size = rows_.ids.size();
  const std::int64_t first = row * rows_.seq_len;
  const auto length = static_cast<std::int64_t>(sequence.ids.size());
  std::copy(sequence.ids.begin(), sequence.ids.end(), rows_.ids.begin() + first);
  std::copy(sequence.labels.begin(), sequence.labels.end(), rows_.labels.begin() + first);
  if (!rows_.lengths.empty()) rows_.lengths[static_cast<std::size_t>(row)] = length;
  const bool hides_padding = masks_padding_ && length < rows_.seq_len;
  if (!sequence.mask.empty() || hides_padding) {
    if (rows_.attention_mask.empty()) rows_.attention_mask.resize(size, 1);
    const auto mask = rows_.attention_mask.begin() + first;
    std::copy(sequence.mask.begin(), sequence.mask.end(), mask);
    if (hides_padding) std::fill(mask + length, mask + rows_.seq_len, 0);
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
