#include <ATen/ops/empty.h>

#include <algorithm>
#include <memory>

#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Rows of one microbatch, as long as the longest of them.
struct Rows {
  const TokenRows& of;
  std::int64_t first, count, length;

  Rows(const TokenRows& rows, std::int64_t begin, std::int64_t size)
      : of(rows), first(begin), count(size), length(rows.seq_len) {
    if (rows.lengths.empty()) return;
    const auto lengths = rows.lengths.begin() + begin;
    length = *std::max_element(lengths, lengths + size);
  }

  template <typename T>
  at::Tensor tensor(const std::vector<T>& values) const {
    at::Tensor result = at::empty({count, length}, at::kLong);
    auto* to = result.mutable_data_ptr<std::int64_t>();
    for (std::int64_t row = first; row < first + count; ++row)
      to = std::copy_n(values.begin() + row * of.seq_len, length, to);
    return result;
  }

  bool has_mask() const {
    if (of.attention_mask.empty()) return false;
    for (std::int64_t row = first; row < first + count; ++row) {
      const auto begin = of.attention_mask.begin() + row * of.seq_len;
      if (std::find(begin, begin + length, 0) != begin + length) return true;
    }
    return false;
  }

  // Bits must not depend on the other rows of a replica's share.
  bool has_positions() const {
    if (of.position_ids.empty()) return false;
    for (std::int64_t row = first; row < first + count; ++row) {
      const auto begin = of.position_ids.begin() + row * of.seq_len;
      for (std::int64_t i = 0; i < length; ++i)
        if (begin[i] != i) return true;
    }
    return false;
  }

  Values values() const {
    return {{"input_ids", tensor(of.ids)},
            {"labels", tensor(of.labels)},
            {"attention_mask", has_mask() ? tensor(of.attention_mask) : at::Tensor()},
            {"position_ids", has_positions() ? tensor(of.position_ids) : at::Tensor()}};
  }
};

}  // namespace

StepBatch causal_lm_batch(TokenRows rows, std::int64_t microbatch_size, std::int64_t step) {
  if (microbatch_size < 1) {
    throw Error(ErrorKind::kUsage,
                {.what = "`microbatch_size` is " + std::to_string(microbatch_size),
                 .remedy = "set it to at least 1"});
  }
  StepBatch result;
  result.step = step;
  const auto held = std::make_shared<const TokenRows>(std::move(rows));
  for (std::int64_t first = 0; first < held->num_rows; first += microbatch_size) {
    const std::int64_t count = std::min(microbatch_size, held->num_rows - first);
    result.counts.push_back(held->counted_labels(first, count));
    result.microbatches.push_back(
        [held, first, count] { return Rows(*held, first, count).values(); });
  }
  return result;
}

StepBatch causal_lm_batch(StepShare share, std::int64_t first_row, std::int64_t microbatch_size,
                          std::int64_t step) {
  StepBatch result = causal_lm_batch(std::move(share.rows), microbatch_size, step);
  result.first_microbatch = first_row / microbatch_size;
  result.total_count = share.total_counted;
  return result;
}

}  // namespace sluice
