#include <algorithm>
#include <memory>

#include "model/microbatch_rows.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice {
namespace {

Values values_of(const TokenRows& all, const detail::MicrobatchRows& rows) {
  return {{"input_ids", rows.tensor(all.ids)},
          {"labels", rows.tensor(all.labels)},
          {"attention_mask", rows.has_mask() ? rows.tensor(all.attention_mask) : at::Tensor()},
          {"position_ids", rows.has_positions() ? rows.tensor(all.position_ids) : at::Tensor()}};
}

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
    result.microbatches.push_back([held, first, count] {
      return values_of(*held, detail::MicrobatchRows(*held, first, count));
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
