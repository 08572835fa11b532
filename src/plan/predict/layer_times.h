// The times that the layers of a model take on a machine: measured seconds, or counted operations.
//
// Owns: LayerTimes, the file of them (docs/simulate.md), their counted form, which layers take
// equally long, and the costs of the stages of a partition that follow from them. Does not own:
// measuring (job.h), the replay of a program (simulate.h).
//
// Invariants:
//  1. Times have one entry for every layer of the model that they are of, in its order.
//  2. A file of another model, microbatch, precision, number of threads or kind of operators is
//     refused, and never scaled to fit.
// Thread-safety: values, pure functions but for reading files.
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

// The costs of one layer; the last layer's hold the loss. Bytes are about what memory is predicted
// to be (plan.h).
struct LayerTime : StageCosts {
  std::string name;
  LayerRole role = LayerRole::kBlock;
  double cast = 0;          // casting its weights in mixed precision, once a step
  double output_bytes = 0;  // handed on to the next layer
  friend bool operator==(const LayerTime&, const LayerTime&) = default;
};

// The subject of times: they hold for nothing else.
struct TimedRun {
  std::string model;  // fingerprint_of()
  std::string family;
  MicrobatchShape microbatch;
  std::int64_t threads_per_rank = 1;
  std::string dtype = "float32";         // dtype of the parameters
  std::string mixed_precision = "none";  // as training.mixed_precision
  std::string operators = "auto";        // training.fused; ", loss by blocks"
  std::string optimizer = "AdamW";
  std::string recomputed = "none";  // layers that run twice: "none", "full", or their names
  std::string transport = "threads";
  std::string cpu;  // another one is allowed, with a warning
};

struct LayerTimes {
  std::string unit = "s";         // unit of all times: "s", or "GFLOP" of counted ones
  bool counted = false;           // from operations, not measured
  std::vector<LayerTime> layers;  // layers of the whole model
  double latency = 0;             // latency of a message between ranks
  double bandwidth = 0;           // bytes per unit of time; 0: infinite
  double action = 0;              // time of every action beside its layers
  double reduce_loss = 0, reduce_norm = 0;
  double parallel_ranks = 0;  // number of ranks with a core for each of their threads; 0: all
  TimedRun of;
  std::string file;  // file that they were read from; for errors
};

// A hash of what decides the times of layers: their names, classes, values and parameters.
std::string fingerprint_of(const ModelSpec& model);
// "AMD EPYC 9R14", as the system calls it; "" where it does not say.
std::string cpu_name();

// The JSON of docs/simulate.md. Throws Error(kInput) naming file and field.
std::string layer_times_json(const LayerTimes& times);
LayerTimes parse_layer_times(std::string_view text, const std::string& file_name);
// True for a JSON document that is one of these, rather than the costs of stages.
bool holds_layer_times(std::string_view text);

// Throws Error(kInput) with what differs, of a model or run that the times are not of. Returns a
// warning of another CPU, "" for the same.
std::string require_times_of(const LayerTimes& times, const ModelSpec& model,
                             const TimedRun& wanted);

// The same of a rank that has one of the shares of each layer that is divided: that part of its
// operations, as the costs of both models count them, and of its memory; what it exchanges with the
// other shares takes what messages do. share: the model with the costs of a share.
LayerTimes of_one_share(LayerTimes times, const ModelSpec& whole, const ModelSpec& share,
                        const TensorParallel& how);

// Names, roles and bytes of the layers; no times.
LayerTimes without_times(const ModelSpec& model, const MicrobatchShape& microbatch,
                         OptimizerKind optimizer);
// Operations as LayerCost counts them, in GFLOP; of a model that counts none, 1 for each block.
LayerTimes counted_times(const ModelSpec& model, const MicrobatchShape& microbatch,
                         OptimizerKind optimizer);
// Counted times as seconds of ranks that do `flops` operations a second each and pass `bandwidth`
// bytes a second to each other (0: in no time). Nothing but matrix products and messages takes
// time. Throws Error(kUsage) of a model that counts none.
LayerTimes at_speed(LayerTimes counted, double flops, double bandwidth);
// The model that times are of, as far as they know it: names and roles, enough for a split.
ModelSpec model_of_times(const LayerTimes& times);

// The seconds of a rank's step that one layer takes: a split balances these.
double step_time(const LayerTime& layer, int num_microbatches);
std::vector<double> step_times(const LayerTimes& times, int num_microbatches);

// The costs of the stages of a partition. A measurement runs twice what runs twice; of counted
// operations F is added to I and B here.
Costs stage_costs(const LayerTimes& times, const Partition& partition);

namespace detail {

// The properties of a layer that decide how long it takes: role, class, values, sizes of parameters
// and what of them is trained, under names that are the same for layers that are alike.
std::string kind_text(const LayerInfo& layer);

// Layers that are never on different stages, in the order of the model: those before the first
// block, each from the first to the last block, and those behind.
struct LayerGroup {
  std::vector<int> layers;
  int measured_as =
      0;  // the group of the same kind that comes first; its own number, if it is that
};
std::vector<LayerGroup> layer_groups(const ModelSpec& model);

}  // namespace detail
}  // namespace sluice
