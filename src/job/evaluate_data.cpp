#include "job/evaluate_data.h"

#include <algorithm>

#include "base/text.h"
#include "job/run_inputs.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice {
namespace {

std::int64_t rows_of(const TokenData& data, std::int64_t batch_size, std::int64_t max_batches) {
  const std::int64_t all = data.num_sequences();
  return max_batches > 0 && max_batches <= all / batch_size ? max_batches * batch_size : all;
}

}  // namespace

TokenDataOptions evaluation_data_options(const RunConfig& config, const ModelSpec& spec) {
  TokenDataOptions options = token_data_options(config, spec, expand_data_files(config));
  options.data.shuffle = false;
  return options;
}

TokenDataOptions validation_data_options(const RunConfig& config, const ModelSpec& spec) {
  TokenDataOptions options = token_data_options(config, spec, expand_validation_files(config));
  options.data.shuffle = false;
  return options;
}

void require_counted_labels(const TokenData& data, const TrainingOptions& training,
                            std::int64_t max_batches) {
  const std::int64_t batch_size = training.local_batch_size;
  if (max_batches == 0) return data.require_counted_labels(/*steps=*/0, batch_size);
  const std::int64_t num_rows = rows_of(data, batch_size, max_batches);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    if (data.read({row}, 1).counted_labels(0, 1) > 0) return;
  }
  throw Error(ErrorKind::kInput,
              {.what = "no label of the first " + counted(num_rows, "row") + " is counted",
               .where = "evaluation",
               .remedy = "give files whose first rows have labels other than -100, or raise "
                         "validation.steps"});
}

DataLoss evaluate_data(
    const TokenData& data, const TrainingOptions& training, std::int64_t max_batches,
    std::int64_t step,
    const std::function<std::vector<MicrobatchLoss>(const StepBatch&)>& losses_of) {
  const std::int64_t batch_size = training.local_batch_size;
  const std::int64_t num_rows = rows_of(data, batch_size, max_batches);
  DataLoss total;
  for (std::int64_t first = 0; first < num_rows; first += batch_size) {
    TokenRows rows = data.read({first}, std::min(batch_size, num_rows - first));
    for (const MicrobatchLoss& loss :
         losses_of(causal_lm_batch(std::move(rows), training.microbatch_size, step))) {
      total.sum += loss.sum;
      total.tokens += loss.count;
    }
  }
  if (total.tokens > 0) return total;
  throw Error(ErrorKind::kInput, {.what = "no label of the data is counted",
                                  .where = "evaluation",
                                  .remedy = "give files with labels other than -100"});
}

}  // namespace sluice
