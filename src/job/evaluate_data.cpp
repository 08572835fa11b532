#include "job/evaluate_data.h"

#include <algorithm>

#include "job/run_inputs.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice {

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

DataLoss evaluate_data(
    const TokenData& data, const TrainingOptions& training, std::int64_t max_batches,
    std::int64_t step,
    const std::function<std::vector<MicrobatchLoss>(const StepBatch&)>& losses_of) {
  const std::int64_t batch_size = training.local_batch_size;
  std::int64_t num_rows = data.num_sequences();
  if (max_batches > 0 && max_batches <= num_rows / batch_size) num_rows = max_batches * batch_size;
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
