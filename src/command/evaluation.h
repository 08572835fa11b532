// The loss on a data set: every sequence once, in the order of the files.
// Thread-safety: pure functions, but for the model that they are given.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "command/processes.h"
#include "command/weights.h"
#include "config/run_config.h"
#include "engine/executor.h"
#include "io/adapter_directory.h"
#include "model/model_maker.h"
#include "sluice/data.h"
#include "sluice/lora.h"
#include "sluice/model.h"
#include "sluice/pipeline.h"
#include "sluice/plan.h"

namespace sluice {

// Nothing where rows are counted. Throws Error(kInput) when evaluate_data() with the same
// max_batches would count no label, or meet a malformed row before the first that it counts. With
// 0, all batches, it goes by the rows that were read, and throws for a file without counted labels,
// too.
void require_counted_labels(const TokenData& data, const RunConfig& config,
                            std::int64_t max_batches);

// The cut of rows into batches, and of the microbatches of each into replicas: those of replica 0
// come first. A batch may have fewer microbatches than there are replicas.
struct EvaluationBatches {
  std::int64_t batch_size = 1, microbatch_size = 1;
  std::int64_t replica = 0, num_replicas = 1;
  const ModelMaker* maker = nullptr;
};
// Batches of as many sequences as a step has. rank: of the run.
EvaluationBatches evaluation_batches(const RunConfig& config, const Plan& plan, int rank);

struct DataLoss {
  double sum = 0;
  std::int64_t tokens = 0;  // counted; or rows, or whatever the model counts
  double mean() const { return sum / static_cast<double>(tokens); }
  // The same bits, also where a sum is not a number.
  friend bool operator==(const DataLoss& a, const DataLoss& b) {
    return std::bit_cast<std::uint64_t>(a.sum) == std::bit_cast<std::uint64_t>(b.sum) &&
           a.tokens == b.tokens;
  }
};

// The loss of `model` on the first max_batches batches (0: all), the last of which may be smaller.
// losses_of: the losses of all replicas' models on a batch, of which this one gets its own
// microbatches (maybe none), in the order of all microbatches, in which they are added up: so the
// sum does not depend on how they fall into batches and replicas. step: the one that is evaluated,
// for messages. Throws Error(kInput) for a row that is malformed, and when no label is counted.
DataLoss evaluate_data(
    const TokenData& data, const Model& model, const EvaluationBatches& batches,
    std::int64_t max_batches, std::int64_t step,
    const std::function<std::vector<MicrobatchLoss>(const StepBatch&)>& losses_of);

// The weights of forwards without a training.
struct EvaluatedWeights {
  OpenedWeights opened;
  std::optional<Adapter> adapter;
  std::optional<AdapterDirectory> tensors;
};
// Those of `checkpoint`, or with "" of model.path, with model.adapter. What was committed is
// verified. Throws Error as evaluate() does (job.h).
EvaluatedWeights weights_to_evaluate(const RunConfig& config, const ModelSpec& spec,
                                     const std::string& checkpoint);
// The options of a pipeline for them; where their archive has them, its constructor sets them.
RunOptions evaluation_options(const RunConfig& config, const EvaluatedWeights& weights);
// Collective: those of a directory.
void load_weights_to_evaluate(const EvaluatedWeights& weights, const ModelSpec& model,
                              Pipeline& pipeline);
// The last checkpoint of a folder that holds several, "" for none.
std::string last_checkpoint_in(const std::string& folder);
// Throws Error(kMemory) where forwards alone do not fit.
void require_memory_to_evaluate(Plan plan, const LocalRanks& ranks);

}  // namespace sluice
