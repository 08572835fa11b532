// The options of a run besides its plan, and the results of a step.
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
  // For collectives in forwards and backwards, which all these ranks run in the same order. Empty
  // if size is 1.
  Group group = {};
};

struct NamedMesh {
  std::vector<MeshAxis> axes;
  // Throws Error(kUsage) with the nearest name.
  const MeshAxis& operator[](std::string_view name) const;
};

// A chunk with modules but without weights yet, for the parallelize hook.
struct LocalChunk {
  int rank = 0, stage = 0, num_stages = 1;
  bool is_first = false, is_last = false;
  // Each layer and its module, which the hook may change or replace with one that the layer's
  // forward accepts. A whole module is one layer. Null: no module.
  std::vector<std::string> layers;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::vector<std::string> prefixes;
  NamedMesh world_mesh;   // pp, dp_replicate, dp_shard, cp, tp
  NamedMesh expert_mesh;  // ep_shard, ep: covers dp_replicate, dp_shard and cp
  AxisNames axis_names;
  TensorParallel tensor_parallel;
  // Parameters, by full name, that the hook added or removed. All others must stay.
  std::vector<std::string> added, removed;
  // Parameters, by full name, of which this rank has a part or a partial gradient. Omit those that
  // a SlicedModule declares.
  std::vector<std::pair<std::string, ParameterSlices>> slices;
  // By layer: the weights that parallelize_module() divided; null: none.
  std::vector<std::shared_ptr<detail::DividedWeights>> divided;
};

using Parallelize = std::function<void(LocalChunk& chunk)>;

class ExecutorObserver;
class MemoryLedger;

// Your own gradient reduction for data parallelism. It runs as the program's REDUCE_GRAD.
struct GradientReduction {
  // Called on the stage's rank when the gradients of a microbatch, or of the step (nullopt), are
  // complete. gradients: by full name, to be changed in place; float32 for half precision. If
  // empty, nothing is reduced and the program has no REDUCE_GRAD.
  std::function<void(int stage, std::optional<int> microbatch,
                     const std::vector<std::pair<std::string, at::Tensor>>& gradients)>
      reduce = {};
  // Call it after every backward, instead of once per step.
  bool per_microbatch = false;
};

// Requests between two steps. kStop includes kSave.
enum class StepRequest : std::uint8_t { kNone, kSave, kStop };

enum class InitialWeights : std::uint8_t {
  kDrawn,    // LayerSpec::initialize or Initialization::module; the same for all layouts
  kFactory,  // from the factories; replicas and ties copy the first
  kNone,     // load before the first step; a step without weights throws
};

struct RunOptions {
  // Seeds the initial weights and, with the step number, dropout.
  std::uint64_t seed = 0;
  InitialWeights weights = InitialWeights::kDrawn;
  // Threads per operator on each rank; 0 divides the machine's cores among its ranks. Bits are
  // equal only between runs with the same number.
  int threads_per_rank = 1;
  // With run(): the device of the modules, and of a body's CUDA without a number. Other pipelines
  // use Transport::device(). Batches may be on any device.
  DeviceKind device = DeviceKind::kCpu;
  GradientScale scale = {};
  GradientReduction reduction = {};
  // The observers of a rank. Called once on its thread. They must outlive the pipeline.
  std::function<std::vector<ExecutorObserver*>(int rank)> observers = {};
  // The same, for training steps only.
  std::function<std::vector<ExecutorObserver*>(int rank)> training_observers = {};
  // Runs forwards and losses under autocast to this type (kBFloat16), by default under the calling
  // thread's state, which all ranks must share. Backwards and hooks run without autocast. torch's
  // cache of casted weights is not used (docs/training.md).
  std::optional<at::ScalarType> autocast = {};
  // In place of autograd (parts/chunk.h).
  std::function<ChunkBackwardMaker(int stage)> backward_of = {};
  // May replace modules before weights are drawn.
  Parallelize parallelize = {};
  AxisNames axis_names = {};
  // True: a loss that is not finite throws Error(kNotFinite) with the place, on every rank and
  // before `.grad` changes. False: it logs a warning. Trainer always throws.
  bool requires_finite = false;
  // Selects, by full name, the parameters that state() and save() hold. Buffers are then left out
  // too. If empty, everything is held.
  std::function<bool(const std::string& parameter)> saves = {};
  // Called once per step on every rank; see StepResult::request.
  std::function<StepRequest()> requested = {};
  // Counts the bytes of the ranks, and must outlive the pipeline. If null, memory is reported as 0.
  MemoryLedger* ledger = nullptr;
  // With run(): the limit of waits for another rank after the start. Must exceed any rank's work
  // between two steps, such as reading data or saving.
  std::chrono::milliseconds deadline = std::chrono::hours(1);
  // With run() in several processes: a process that is silent for longer is lost.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);
};

enum class OutputRanks : std::uint8_t {
  kNone,
  kLastStage,
  kAll,  // through GATHER_OUTPUTS
};

struct StepOptions {
  // Which ranks get the detached outputs of every microbatch.
  OutputRanks outputs = OutputRanks::kNone;
  // Overrides RunOptions::scale.
  std::optional<GradientScale> scale = {};
};

// Everything except `outputs` is the same on every rank.
struct StepResult {
  // The mean over everything that the loss counted, plus the scaled means of the auxiliary losses.
  // GradientScale::kTokens differentiates this value.
  double loss = 0;
  std::int64_t count = 0;  // tokens or rows
  // By microbatch of all replicas, without auxiliary losses; 0 if nothing counted.
  std::vector<double> microbatch_losses;
  // In layer order. Microbatches weigh by their count.
  std::vector<std::pair<std::string, double>> auxiliary;
  // Of this rank's replica, by microbatch; see StepOptions::outputs.
  std::vector<Values> outputs;
  StepRequest request = StepRequest::kNone;

  // After StepEnd::kUpdate: the norm of all gradients before clipping, and of each parameter in
  // layer order; 0 without gradient. A tied parameter appears once, under its first use.
  double grad_norm = 0;
  std::vector<std::pair<std::string, double>> parameter_norms;
  bool finite = true;  // false: loss or norm is not finite, and nothing was updated
};

}  // namespace sluice
