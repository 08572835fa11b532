// The options of a run beside its plan, and the results of a step.
//
// Thread-safety: values; hooks are called on the threads of all ranks.
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

// The names that your program gives to the axes.
struct AxisNames {
  std::string pp = "pp", dp_replicate = "dp_replicate", dp_shard = "dp_shard", cp = "cp", tp = "tp";
  std::string ep = "ep", ep_shard = "ep_shard";

  const std::string& of(Axis axis) const;
};

// One axis as a rank sees it.
struct MeshAxis {
  std::string name;
  Axis axis = Axis::kPp;
  int size = 1;
  int coordinate = 0;      // coordinate of this rank
  std::vector<int> ranks;  // this rank and those that differ from it along this axis alone
  // The group of these ranks, for collectives of the modules within their forwards and backwards,
  // which all of them run in the same order. Empty where the size is 1.
  Group group = {};
};

struct NamedMesh {
  std::vector<MeshAxis> axes;
  // The axis of this name. Throws Error(kUsage) with the nearest name.
  const MeshAxis& operator[](std::string_view name) const;
};

// A chunk whose modules are made, and whose weights are not set yet.
struct LocalChunk {
  int rank = 0, stage = 0, num_stages = 1;
  bool is_first = false, is_last = false;  // first or last of the model's stages
  // The chunk's layers and the module of each, which the hook may change or replace by another that
  // the layer's forward takes. A whole module is one layer. Null: a layer without a module.
  std::vector<std::string> layers;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::vector<std::string> prefixes;  // prefixes of the full names of their parameters
  NamedMesh world_mesh;               // pp, dp_replicate, dp_shard, cp, tp
  NamedMesh expert_mesh;              // ep_shard, ep: another view of dp_replicate, dp_shard and cp
  AxisNames axis_names;
  TensorParallel tensor_parallel;  // the plan's division along the axis tp
  // Parameters, by full name, that the hook has added or removed: all others must stay.
  std::vector<std::string> added, removed;
  // The parameters, by full name, of which this rank holds a part or a partial gradient. Those that
  // a SlicedModule declares need not be here.
  std::vector<std::pair<std::string, ParameterSlices>> slices;
  // The weights that parallelize_module (tensor_parallel.h) has divided, by layer; null: none.
  std::vector<std::shared_ptr<detail::DividedWeights>> divided;
};

using Parallelize = std::function<void(LocalChunk& chunk)>;

class ExecutorObserver;
class MemoryLedger;

// Your own hook that sums gradients over ranks, as data parallelism needs: it carries out the
// program's REDUCE_GRAD (program.h).
struct GradientReduction {
  // Called on the stage's rank when the gradients of a microbatch, or of the whole step (none), are
  // complete. gradients: full names and sums of the stage's trainable parameters that have one, to
  // be changed in place; float32 where the parameter is of half precision. No gradient is passed to
  // two calls. Empty: nothing is reduced, and the program has no REDUCE_GRAD.
  std::function<void(int stage, std::optional<int> microbatch,
                     const std::vector<std::pair<std::string, at::Tensor>>& gradients)>
      reduce = {};
  // True: called after every backward, instead of once a step after the last.
  bool per_microbatch = false;
};

// Requests to a run between two steps; the later ones include the earlier.
enum class StepRequest : std::uint8_t { kNone, kSave, kStop };

// The source of a new pipeline's weights.
enum class InitialWeights : std::uint8_t {
  kDrawn,    // LayerSpec::initialize, or Initialization::module: the same for every layout
  kFactory,  // values set by the layers' factories; replicas and ties have those of the first
  kNone,     // none: load_weights() or a load() follows; a step before it is refused
};

// How a pipeline runs, beside what its plan says.
struct RunOptions {
  // Seed of the initial weights and, together with the number of the step, of dropout.
  std::uint64_t seed = 0;
  InitialWeights weights = InitialWeights::kDrawn;
  // Threads of an operator, on each rank; 0: the cores of this machine divided among the ranks.
  // Bits are equal only between runs with the same number.
  int threads_per_rank = 1;
  // With run(): where the ranks' modules are moved once they are made, and the device that a body
  // gets where it names CUDA without a number. Pipelines that are made without run() are on their
  // transport's (Transport::device). A batch may be on any.
  DeviceKind device = DeviceKind::kCpu;
  // The quantity that a step differentiates.
  GradientScale scale = {};
  GradientReduction reduction = {};
  // Makes the observers of a rank. Called once, on its thread; the observers must outlive the
  // pipeline.
  std::function<std::vector<ExecutorObserver*>(int rank)> observers = {};
  // The same for observers of training steps alone.
  std::function<std::vector<ExecutorObserver*>(int rank)> training_observers = {};
  // Mixed precision: forwards and losses run under autocast to this type (kBFloat16), wherever a
  // step is called. None: under the autocast state of the calling thread, which must be the same on
  // all ranks. Backwards and hooks run without autocast; a cache of casted weights is not used
  // (docs/training.md).
  std::optional<at::ScalarType> autocast = {};
  // Your own backward for a stage, in place of autograd's (parts/chunk.h).
  std::function<ChunkBackwardMaker(int stage)> backward_of = {};
  // Called for each local chunk before its weights are drawn; may change and replace its modules.
  Parallelize parallelize = {};
  AxisNames axis_names = {};  // names in the hook's meshes
  // A step whose loss is not finite throws Error(kNotFinite) on every rank, with the place, before
  // `.grad` is touched; else the log has a warning. Trainer's steps always throw.
  bool requires_finite = false;
  // True for the parameters, by full name, that state() and save() hold; the rest, and all buffers,
  // are kept elsewhere. Empty: all are held.
  std::function<bool(const std::string& parameter)> saves = {};
  // Asked once a step on every rank: StepResult::request is the strongest answer.
  std::function<StepRequest()> requested = {};
  // Counts the bytes of the ranks; must outlive the pipeline. null: memory is reported as 0.
  MemoryLedger* ledger = nullptr;
  // With run(): the deadline of every wait for another rank, once processes have met. Make it
  // longer than the work of any rank between two steps, such as reading data or saving.
  std::chrono::milliseconds deadline = std::chrono::hours(1);
  // With run() in several processes: a process that is silent for longer counts as lost.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);
};

// The ranks that get the model's outputs.
enum class OutputRanks : std::uint8_t {
  kNone,
  kLastStage,  // the rank of the last stage
  kAll,        // all ranks, by the program's GATHER_OUTPUTS
};

struct StepOptions {
  // The ranks that get the outputs of every microbatch, detached.
  OutputRanks outputs = OutputRanks::kNone;
  // The quantity that this step differentiates, in place of RunOptions::scale.
  std::optional<GradientScale> scale = {};
};

// The result of a step; all of it but the outputs is the same on every rank.
struct StepResult {
  // Mean over all that the loss counted in the step, plus the means of the auxiliary losses times
  // their scale: the quantity that GradientScale::kTokens differentiates.
  double loss = 0;
  std::int64_t count = 0;  // number of counted tokens or rows
  // Mean loss of each microbatch of all replicas, without auxiliary losses; 0 where nothing is
  // counted.
  std::vector<double> microbatch_losses;
  // The mean of each auxiliary loss, microbatches weighing by what they count; in layer order.
  std::vector<std::pair<std::string, double>> auxiliary;
  // The outputs of this rank's replica, in the order of the microbatches, as StepOptions::outputs
  // asks.
  std::vector<Values> outputs;
  StepRequest request = StepRequest::kNone;  // the strongest answer of any rank

  // With an update (StepEnd::kUpdate): the norm of all gradients before clipping, and that of each
  // parameter in layer order; tied ones once, under the name of the first use; 0 without a
  // gradient.
  double grad_norm = 0;
  std::vector<std::pair<std::string, double>> parameter_norms;
  bool finite = true;  // false: loss or norm is not finite, and nothing was updated
};

}  // namespace sluice
