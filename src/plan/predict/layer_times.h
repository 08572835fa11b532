// How long each layer of a model takes, measured in seconds or estimated from FLOPs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/model_spec.h"
#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/plan.h"
#include "sluice/simulate.h"

namespace sluice {

// The last layer's times include the loss. Memory sizes are predictions (plan.h).
struct LayerTime : StageCosts {
  std::string name;
  LayerRole role = LayerRole::kBlock;
  double cast = 0;          // time to cast the weights in mixed precision, once per step
  double output_bytes = 0;  // size of the activation sent to the next layer
  friend bool operator==(const LayerTime&, const LayerTime&) = default;
};

// The settings for which times are valid.
struct TimedRun {
  std::string model;  // fingerprint_of()
  std::string family;
  MicrobatchShape microbatch;
  std::int64_t threads_per_rank = 1;
  std::string dtype = "float32";         // of the parameters
  std::string mixed_precision = "none";  // as training.mixed_precision
  std::string operators = "auto";        // as training.fused, perhaps with ", loss by blocks"
  std::string optimizer = "AdamW";
  std::string recomputed = "none";  // "none", "full" or the names of recomputed layers
  std::string transport = "threads";
  std::string cpu;  // a different CPU only causes a warning
};

struct LayerTimes {
  std::string unit = "s";  // "s", or "GFLOP" if estimated from FLOPs
  bool counted = false;    // true: estimated from FLOPs; false: measured
  // Whether a person wrote the times (layer_costs.h). They are then those of one rank's share.
  bool elsewhere = false;
  std::vector<LayerTime> layers;
  double latency = 0;    // of a message between ranks
  double bandwidth = 0;  // bytes per unit of time; 0: infinite
  double action = 0;     // overhead of each action
  double reduce_loss = 0, reduce_norm = 0;
  double parallel_ranks = 0;  // ranks whose threads all have a core at once; 0: all
  TimedRun of;
  std::string file;
};

// Hashes everything about the layers that determines their times.
std::string fingerprint_of(const ModelSpec& model);
// Returns "AMD EPYC 9R14", or "" if unknown.
std::string cpu_name();

// Writes and reads JSON (docs/simulate.md). Reading throws Error(kInput) naming file and field.
std::string layer_times_json(const LayerTimes& times);
LayerTimes parse_layer_times(std::string_view text, const std::string& file_name);
bool holds_layer_times(std::string_view text);
// Whether the text is of layer_times_json(), or tries to be.
bool is_measured_here(std::string_view text);

// Throws Error(kInput) listing the differences if the times belong to another model or run. Returns
// a warning if only the CPU differs.
std::string require_times_of(const LayerTimes& times, const ModelSpec& model,
                             const TimedRun& wanted);

// Scales times to one tensor-parallel rank, by the FLOPs of `whole` and `share`, the model with one
// rank's costs.
LayerTimes of_one_share(LayerTimes times, const ModelSpec& whole, const ModelSpec& share,
                        const TensorParallel& how);

// Scales times to a rank that has only its own experts, and adds the exchanges of tokens at even
// routes.
LayerTimes with_shared_experts(LayerTimes times, const ModelSpec& model,
                               const PipelineOptions& options);

LayerTimes without_times(const ModelSpec& model, const MicrobatchShape& microbatch,
                         OptimizerKind optimizer);
// Estimates times in GFLOP. If the model has no FLOP counts, each block takes 1.
LayerTimes counted_times(const ModelSpec& model, const MicrobatchShape& microbatch,
                         OptimizerKind optimizer);
// Converts estimated GFLOP to seconds, for ranks with `flops` operations and `bandwidth` bytes per
// second (0: infinite). Only matrix products and messages take time. Throws Error(kUsage) if the
// model has no FLOP counts.
LayerTimes at_speed(LayerTimes counted, double flops, double bandwidth);
ModelSpec model_of_times(const LayerTimes& times);

// Returns the seconds that a layer adds to its rank's step.
double step_time(const LayerTime& layer, int num_microbatches);
std::vector<double> step_times(const LayerTimes& times, int num_microbatches);

// Sums layer times per stage. Measured times include recomputation. With estimated times, a
// recomputed layer adds its forward to B (the whole backward) and to I (the input gradient of a
// split backward).
Costs stage_costs(const LayerTimes& times, const Partition& partition);

namespace detail {

// Returns equal text for layers that take equally long.
std::string kind_text(const LayerInfo& layer);

// Layers that always share a stage: those before the first block, each block, and those after the
// last block.
struct LayerGroup {
  std::vector<int> layers;
  int measured_as = 0;  // index of the first group with equal layers
};
std::vector<LayerGroup> layer_groups(const ModelSpec& model);

}  // namespace detail
}  // namespace sluice
