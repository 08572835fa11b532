#include <ATen/ops/empty.h>

#include <algorithm>
#include <memory>

#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice {
namespace {

at::Tensor to_tensor(const std::vector<std::int32_t>& tokens, const TokenRows& of,
                     std::int64_t first, std::int64_t count) {
  at::Tensor result = at::empty({count, of.seq_len}, at::kLong);
  std::copy_n(tokens.begin() + first * of.seq_len, count * of.seq_len,
              result.mutable_data_ptr<std::int64_t>());
  return result;
}

}  // namespace

StepBatch causal_lm_batch(TokenRows rows, std::int64_t microbatch_size, std::int64_t step) {
  if (microbatch_size < 1) {
    throw Error(ErrorKind::kUsage,
                {.what = "training.microbatch_size is " + std::to_string(microbatch_size),
                 .remedy = "set it to at least 1"});
  }
  StepBatch result;
  result.step = step;
  const auto held = std::make_shared<const TokenRows>(std::move(rows));
  for (std::int64_t first = 0; first < held->num_rows; first += microbatch_size) {
    const std::int64_t count = std::min(microbatch_size, held->num_rows - first);
    result.counts.push_back(held->counted_labels(first, count));
    result.microbatches.push_back([held, first, count]() -> Values {
      return {{"input_ids", to_tensor(held->ids, *held, first, count)},
              {"labels", to_tensor(held->labels, *held, first, count)}};
    });
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
