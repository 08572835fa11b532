// Describes how long each layer of a model takes, measured in seconds or estimated from FLOPs. Has
// one entry per layer, in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/model_spec.h"
#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/simulate.h"

namespace sluice {

// The last layer includes the loss. Memory sizes are predictions (plan.h).
struct LayerTime : StageCosts {
  std::string name;
  LayerRole role = LayerRole::kBlock;
  double cast = 0;          // to cast the weights in mixed precision, once per step
  double output_bytes = 0;  // size of the activation for the next layer
  friend bool operator==(const LayerTime&, const LayerTime&) = default;
};

// The run for which times are valid.
struct TimedRun {
  std::string model;  // fingerprint_of()
  std::string family;
  MicrobatchShape microbatch;
  std::int64_t threads_per_rank = 1;
  std::string dtype = "float32";         // of the parameters
  std::string mixed_precision = "none";  // training.mixed_precision
  std::string operators = "auto";        // training.fused, perhaps with ", loss by blocks"
  std::string optimizer = "AdamW";
  std::string recomputed = "none";  // recomputed layers: "none", "full" or their names
  std::string transport = "threads";
  std::string cpu;  // a different CPU only causes a warning
};

struct LayerTimes {
  std::string unit = "s";  // "s", or "GFLOP" if counted
  bool counted = false;    // estimated from FLOPs
  std::vector<LayerTime> layers;
  double latency = 0;    // of a message between ranks
  double bandwidth = 0;  // bytes per unit of time; 0: infinite
  double action = 0;     // overhead of each action
  double reduce_loss = 0, reduce_norm = 0;
  double parallel_ranks = 0;  // ranks that can have a core for each of their threads; 0: all
  TimedRun of;
  std::string file;
};

// Hashes everything about the layers that determines their times.
std::string fingerprint_of(const ModelSpec& model);
// "AMD EPYC 9R14", or "" if unknown.
std::string cpu_name();

// JSON as in docs/simulate.md. Throws Error(kInput) naming file and field.
std::string layer_times_json(const LayerTimes& times);
LayerTimes parse_layer_times(std::string_view text, const std::string& file_name);
bool holds_layer_times(std::string_view text);

// Throws Error(kInput) that lists the differences if the times belong to another model or run.
// Returns a warning if only the CPU differs.
std::string require_times_of(const LayerTimes& times, const ModelSpec& model,
                             const TimedRun& wanted);

// Scales times to one tensor-parallel share, by the FLOPs of both models. `share` has the costs of
// one share.
LayerTimes of_one_share(LayerTimes times, const ModelSpec& whole, const ModelSpec& share,
                        const TensorParallel& how);

LayerTimes without_times(const ModelSpec& model, const MicrobatchShape& microbatch,
                         OptimizerKind optimizer);
// Estimates times in GFLOP. If the model has no FLOP counts, each block counts as 1.
LayerTimes counted_times(const ModelSpec& model, const MicrobatchShape& microbatch,
                         OptimizerKind optimizer);
// Converts counted times to seconds, for ranks with `flops` operations and `bandwidth` bytes per
// second (0: infinite). Only matrix products and messages take time. Throws Error(kUsage) if the
// model has no FLOP counts.
LayerTimes at_speed(LayerTimes counted, double flops, double bandwidth);
ModelSpec model_of_times(const LayerTimes& times);

// Seconds that a layer adds to its rank's step. Splits balance these.
double step_time(const LayerTime& layer, int num_microbatches);
std::vector<double> step_times(const LayerTimes& times, int num_microbatches);

// Measured times include recomputation. Counted times do not, so F of recomputed layers is added to
// I and B.
Costs stage_costs(const LayerTimes& times, const Partition& partition);

namespace detail {

// Layers that take equally long yield equal text.
std::string kind_text(const LayerInfo& layer);

// Layers that always share a stage: those before the first block, each block, and those after the
// last.
struct LayerGroup {
  std::vector<int> layers;
  int measured_as = 0;  // index of the first group with equal layers
};
std::vector<LayerGroup> layer_groups(const ModelSpec& model);

}  // namespace detail
}  // namespace sluice
