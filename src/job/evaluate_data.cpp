#include "job/evaluate_data.h"

#include <algorithm>

#include "base/text.h"
#include "config/batch_sizes.h"
#include "run/replicas.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice {
namespace {

std::int64_t rows_of(const TokenData& data, std::int64_t batch_size, std::int64_t max_batches) {
  const std::int64_t all = data.num_sequences();
  return max_batches > 0 && max_batches <= all / batch_size ? max_batches * batch_size : all;
}

// Of the microbatches that `count` rows make, those of the replica.
StepBatch batch_of_replica(const TokenData& data, std::int64_t first, std::int64_t count,
                           const EvaluationBatches& batches, std::int64_t step) {
  const std::int64_t size = batches.microbatch_size, all = (count + size - 1) / size;
  const std::int64_t from = all * batches.replica / batches.num_replicas;
  const std::int64_t to = all * (batches.replica + 1) / batches.num_replicas;
  StepBatch batch;
  if (from < to) {
    const std::int64_t num_rows = std::min(to * size, count) - from * size;
    batch = causal_lm_batch(data.read({first + from * size}, num_rows), size, step);
  }
  batch.step = step;
  batch.first_microbatch = from;
  return batch;
}

}  // namespace

EvaluationBatches evaluation_batches(const RunConfig& config, const Plan& plan, int rank) {
  EvaluationBatches batches;
  batches.batch_size = batch_sizes(config).global_batch;
  batches.microbatch_size = config.training.microbatch_size;
  batches.replica = replica_of(plan.program.mesh, rank);
  batches.num_replicas = plan.data_parallel.degree;
  return batches;
}

void require_counted_labels(const TokenData& data, const RunConfig& config,
                            std::int64_t max_batches) {
  const std::int64_t batch_size = batch_sizes(config).global_batch;
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
    const TokenData& data, const EvaluationBatches& batches, std::int64_t max_batches,
    std::int64_t step,
    const std::function<std::vector<MicrobatchLoss>(const StepBatch&)>& losses_of) {
  const std::int64_t batch_size = batches.batch_size;
  const std::int64_t num_rows = rows_of(data, batch_size, max_batches);
  DataLoss total;
  for (std::int64_t first = 0; first < num_rows; first += batch_size) {
    const StepBatch batch =
        batch_of_replica(data, first, std::min(batch_size, num_rows - first), batches, step);
    for (const MicrobatchLoss& loss : losses_of(batch)) {
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
