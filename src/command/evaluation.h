// Computes the loss on a data set. Every sequence counts once, in file order.
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

// Throws Error(kInput) if evaluate_data() would count no label, or read a malformed row before the
// first counted label. With max_batches = 0, every file must have a counted label among its rows
// read so far. Does nothing if the loss counts rows.
void require_counted_labels(const TokenData& data, const RunConfig& config,
                            std::int64_t max_batches);

// How to divide the data. A batch may have fewer microbatches than there are replicas.
struct EvaluationBatches {
  std::int64_t batch_size = 1, microbatch_size = 1;
  std::int64_t replica = 0, num_replicas = 1;
  std::int64_t expert_degree = 1;  // neighboring replicas that must have equally many microbatches
  const ModelMaker* maker = nullptr;
};
EvaluationBatches evaluation_batches(const RunConfig& config, const Plan& plan, int rank);

struct DataLoss {
  double sum = 0;
  std::int64_t tokens = 0;  // or rows, or the model's own unit
  double mean() const { return sum / static_cast<double>(tokens); }
  // Compares bits, so that a NaN loss equals itself.
  friend bool operator==(const DataLoss& a, const DataLoss& b) {
    return std::bit_cast<std::uint64_t>(a.sum) == std::bit_cast<std::uint64_t>(b.sum) &&
           a.tokens == b.tokens;
  }
};

// Evaluates the first max_batches batches (0: all). `losses_of` gets this replica's microbatches
// (possibly none) and returns all replicas' losses in microbatch order, so that the sum is the same
// for every layout. Throws Error(kInput) for a malformed row and if no label is counted.
DataLoss evaluate_data(
    const TokenData& data, const Model& model, const EvaluationBatches& batches,
    std::int64_t max_batches, std::int64_t step,
    const std::function<std::vector<MicrobatchLoss>(const StepBatch&)>& losses_of);

struct EvaluatedWeights {
  OpenedWeights opened;
  std::optional<Adapter> adapter;
  std::optional<AdapterDirectory> tensors;
};
// Opens the weights in directory `checkpoint` ("": model.path). If it is a committed checkpoint,
// its files are first verified against the manifest. Throws Error if the weights are missing,
// damaged or do not fit the model.
EvaluatedWeights weights_to_evaluate(const RunConfig& config, const ModelSpec& spec,
                                     const std::string& checkpoint);
RunOptions evaluation_options(const RunConfig& config, const EvaluatedWeights& weights);
// Collective over all ranks. Does nothing for weights in a graph's archive, which the Pipeline
// constructor loads.
void load_weights_to_evaluate(const EvaluatedWeights& weights, const ModelSpec& model,
                              Pipeline& pipeline);
std::string last_checkpoint_in(const std::string& folder);
void require_memory_to_evaluate(Plan plan, const LocalRanks& ranks);

}  // namespace sluice
