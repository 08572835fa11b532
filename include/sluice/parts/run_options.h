// Options of a run besides its plan, and the results of a step.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/options.h"
#include "sluice/parts/chunk.h"
#include "sluice/parts/group.h"
#include "sluice/parts/layout.h"
#include "sluice/parts/values.h"

namespace sluice {

namespace detail {
class DividedWeights;
}

struct AxisNames {
  std::string pp = "pp", dp_replicate = "dp_replicate", dp_shard = "dp_shard", cp = "cp", tp = "tp";
  std::string ep = "ep", ep_shard = "ep_shard";

  const std::string& of(Axis axis) const;
};

// One axis as seen by a rank.
struct MeshAxis {
  std::string name;
  Axis axis = Axis::kPp;
  int size = 1;
  int coordinate = 0;
  std::vector<int> ranks;  // this rank and those that differ only along this axis
  // For collectives in forwards and backwards, in the same order on all of `ranks`. Empty if size
  // is 1.
  Group group = {};
};

struct NamedMesh {
  std::vector<MeshAxis> axes;
  // Throws Error(kUsage) for an unknown name, with the nearest one.
  const MeshAxis& operator[](std::string_view name) const;
};

// A chunk before its weights are set, for the parallelize hook.
struct LocalChunk {
  int rank = 0, stage = 0, num_stages = 1;
  bool is_first = false, is_last = false;
  // Each layer and its module (null: none). The hook may change the module, or replace it with one
  // that the layer's forward accepts.
  std::vector<std::string> layers;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::vector<std::string> prefixes;
  NamedMesh world_mesh;   // pp, dp_replicate, dp_shard, cp, tp
  NamedMesh expert_mesh;  // ep_shard, ep: covers dp_replicate, dp_shard and cp
  AxisNames axis_names;
  TensorParallel tensor_parallel;
  // The hook lists the full names of parameters that it added or removed.
  std::vector<std::string> added, removed;
  // The hook lists parameters, by full name, of which this rank has a part or a partial gradient,
  // except those of a SlicedModule.
  std::vector<std::pair<std::string, ParameterSlices>> slices;
  // By layer: weights that parallelize_module() divided.
  std::vector<std::shared_ptr<detail::DividedWeights>> divided;
};

using Parallelize = std::function<void(LocalChunk& chunk)>;

class ExecutorObserver;
class MemoryLedger;

// Your own gradient reduction for data parallelism, which runs as REDUCE_GRAD.
struct GradientReduction {
  // Called on the stage's rank when the gradients of a microbatch, or of the step (nullopt), are
  // complete. Must change `gradients` in place, which are float32 for half precision. Empty: no
  // REDUCE_GRAD.
  std::function<void(int stage, std::optional<int> microbatch,
                     const std::vector<std::pair<std::string, at::Tensor>>& gradients)>
      reduce = {};
  // Whether to call `reduce` after every backward, instead of once per step.
  bool per_microbatch = false;
};

// kSave: save a checkpoint. kStop: save and stop training.
enum class StepRequest : std::uint8_t { kNone, kSave, kStop };

enum class InitialWeights : std::uint8_t {
  kDrawn,    // by Model::initialization or LayerSpec::initialize; equal for all layouts
  kFactory,  // from the modules' constructors; replicas and tied uses copy the first
  kNone,     // load before the first step
};

struct RunOptions {
  // Seeds initial weights and dropout.
  std::uint64_t seed = 0;
  InitialWeights weights = InitialWeights::kDrawn;
  // Threads per operator on each rank, on which results depend. 0 divides the machine's cores among
  // its ranks.
  int threads_per_rank = 1;
  // With run(): the device of the modules, and the body's default CUDA device. Otherwise
  // Transport::device() applies. Batches may be on any device.
  DeviceKind device = DeviceKind::kCpu;
  GradientScale scale = {};
  GradientReduction reduction = {};
  // Returns a rank's observers, which must outlive the pipeline. Called once on the rank's thread.
  std::function<std::vector<ExecutorObserver*>(int rank)> observers = {};
  // Returns a rank's observers of training steps only.
  std::function<std::vector<ExecutorObserver*>(int rank)> training_observers = {};
  // Autocasts forwards and losses to this type (kBFloat16). Default: the calling thread's autocast
  // state, which must be equal on all ranks. Backwards and hooks run without autocast
  // (docs/training.md).
  std::optional<at::ScalarType> autocast = {};
  // Returns a stage's own backward, which replaces autograd (parts/chunk.h).
  std::function<ChunkBackwardMaker(int stage)> backward_of = {};
  // Hook that may replace modules before weights are drawn.
  Parallelize parallelize = {};
  AxisNames axis_names = {};
  // Whether a loss that is not finite throws Error(kNotFinite), on every rank and before `.grad`
  // changes, instead of logging a warning. Trainer always throws.
  bool requires_finite = false;
  // Selects, by full name, the parameters that are saved, and excludes buffers. Empty: everything.
  std::function<bool(const std::string& parameter)> saves = {};
  // Called once per step on every rank to compute StepResult::request.
  std::function<StepRequest()> requested = {};
  // Counts memory. Must outlive the pipeline. If null, memory is reported as 0.
  MemoryLedger* ledger = nullptr;
  // With run(): the limit of waits for another rank. Must exceed any rank's work between two steps,
  // such as reading data or saving.
  std::chrono::milliseconds deadline = std::chrono::hours(1);
  // With run() in several processes: a process that is silent for longer counts as lost.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);
};

enum class OutputRanks : std::uint8_t {
  kNone,
  kLastStage,
  kAll,  // all ranks, by GATHER_OUTPUTS
};

struct StepOptions {
  // Ranks that get the detached outputs of every microbatch.
  OutputRanks outputs = OutputRanks::kNone;
  // Overrides RunOptions::scale.
  std::optional<GradientScale> scale = {};
};

// All but `outputs` are the same on every rank.
struct StepResult {
  // The mean over all counted tokens or rows, plus the scaled means of the auxiliary losses. With
  // GradientScale::kTokens, the gradients are those of this value.
  double loss = 0;
  std::int64_t count = 0;  // tokens or rows
  // Mean loss of each microbatch of all replicas, without auxiliary losses. 0 if no token or row
  // counted.
  std::vector<double> microbatch_losses;
  // Auxiliary losses in layer order: means weighted by the microbatches' counts.
  std::vector<std::pair<std::string, double>> auxiliary;
  // Outputs of this replica, by microbatch.
  std::vector<Values> outputs;
  StepRequest request = StepRequest::kNone;

  // With StepEnd::kUpdate: the norm of all gradients before clipping, and of each parameter in
  // layer order (0 without a gradient). A tied parameter appears once, by its first use.
  double grad_norm = 0;
  std::vector<std::pair<std::string, double>> parameter_norms;
  bool finite = true;  // false: nothing was updated
};

}  // namespace sluice
