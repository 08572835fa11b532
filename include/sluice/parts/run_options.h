// What a run is told beside its plan, and what a step gives back.
//
// Owns: the options of a pipeline and of its steps, the hook that sees every chunk before it runs
// (Parallelize), the result of a step. Does not own: the plan's options (plan.h), the optimizer's
// (options.h), the mesh (layout.h). Thread-safety: values; hooks are called on the threads of all
// ranks.
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

// The names that a program gives to the axes.
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
  int coordinate = 0;      // of this rank
  std::vector<int> ranks;  // that differ from this one along it alone, and this one
  // The group of these ranks, for what the modules do together: within their forwards and
  // backwards, which all of them run in the same order. Of nobody where the size is 1.
  Group group = {};
};

struct NamedMesh {
  std::vector<MeshAxis> axes;
  // Throws Error(kUsage) with the nearest name.
  const MeshAxis& operator[](std::string_view name) const;
};

// A chunk whose modules are made, and hold no weights of theirs yet.
struct LocalChunk {
  int rank = 0, stage = 0, num_stages = 1;
  bool is_first = false, is_last = false;  // of the model's stages
  // The chunk's layers and the module of each, which the hook may change or replace by another that
  // the layer's forward takes. Of a whole module: one. Null: a layer without.
  std::vector<std::string> layers;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::vector<std::string> prefixes;  // of the full names of their parameters
  NamedMesh world_mesh;               // pp, dp_replicate, dp_shard, cp, tp
  NamedMesh expert_mesh;              // ep_shard, ep: another view of dp_replicate, dp_shard and cp
  AxisNames axis_names;
  TensorParallel tensor_parallel;  // of the plan: what the axis tp divides
  // Parameters, by full name, that the hook has added or taken out: all others must stay.
  std::vector<std::string> added, removed;
  // By full name, the parameters of which this rank holds a part or a partial gradient. What a
  // SlicedModule says itself need not be here.
  std::vector<std::pair<std::string, ParameterSlices>> slices;
  // By layer, what parallelize_module (tensor_parallel.h) has divided; null: nothing.
  std::vector<std::shared_ptr<detail::DividedWeights>> divided;
};

using Parallelize = std::function<void(LocalChunk& chunk)>;

class ExecutorObserver;
class MemoryLedger;

// A hook that sums gradients over ranks of your own, as data parallelism needs them: what
// REDUCE_GRAD of the program does (program.h).
struct GradientReduction {
  // Called on the stage's rank when gradients are whole: of a microbatch, or of all of a step
  // (none). gradients: full names and sums of the stage's trainable parameters that have one, to be
  // changed in place; float32 where the parameter is of half precision. What a call has reduced is
  // never given to another. Empty: nothing is reduced, and the program has no REDUCE_GRAD.
  std::function<void(int stage, std::optional<int> microbatch,
                     const std::vector<std::pair<std::string, at::Tensor>>& gradients)>
      reduce = {};
  // After every backward, instead of once a step after the last: sooner, and more often.
  bool per_microbatch = false;
};

// Requests to a run between two steps; the later ones include the earlier.
enum class StepRequest : std::uint8_t { kNone, kSave, kStop };

// Where the weights of a new pipeline come from.
enum class InitialWeights : std::uint8_t {
  kDrawn,    // LayerSpec::initialize, or Initialization::module: the same for every layout
  kFactory,  // what the layers' factories have made; replicas and ties have those of the first
  kNone,     // nowhere: load_weights() or a load() follows; a step before it is refused
};

// How a pipeline runs, beside what its plan says.
struct RunOptions {
  // Seed of the initial weights and, together with the number of the step, of dropout.
  std::uint64_t seed = 0;
  InitialWeights weights = InitialWeights::kDrawn;
  // Threads of an operator, for each rank; 0: the cores of this machine divided among the ranks.
  // Bits are equal for equal values only.
  int threads_per_rank = 1;
  // The quantity that a step differentiates.
  GradientScale scale = {};
  GradientReduction reduction = {};
  // Told of all that the rank does. Called once, on its thread; they must outlive the pipeline.
  std::function<std::vector<ExecutorObserver*>(int rank)> observers = {};
  // The same, of training steps alone.
  std::function<std::vector<ExecutorObserver*>(int rank)> training_observers = {};
  // Mixed precision: forwards and losses run under autocast to this type (kBFloat16), wherever a
  // step is called. Without it, under the autocast state of the thread that calls, which has to be
  // the same on all ranks. Backwards and hooks run without; a cache of casted weights is not used
  // (docs/training.md).
  std::optional<at::ScalarType> autocast = {};
  // A backward of your own for a stage, in place of autograd's (parts/chunk.h).
  std::function<ChunkBackwardMaker(int stage)> backward_of = {};
  // Called for each local chunk before its weights are drawn; may change and replace its modules.
  Parallelize parallelize = {};
  AxisNames axis_names = {};  // as the hook sees them
  // A step whose loss is not finite throws Error(kNotFinite) on every rank, with the place, before
  // `.grad` is touched; else it is a warning of the log. Trainer's steps always do.
  bool requires_finite = false;
  // Which parameters state() and save() hold, by name; the rest is kept elsewhere, and buffers with
  // it. Empty: all.
  std::function<bool(const std::string& parameter)> saves = {};
  // Asked once a step on every rank: StepResult::request is the strongest answer.
  std::function<StepRequest()> requested = {};
  // Counts the bytes of the ranks; must outlive the pipeline. null: memory is reported as 0.
  MemoryLedger* ledger = nullptr;
  // With run(): of every wait for another rank, once processes have met. Longer than any rank takes
  // for what it does between two steps, such as reading data or saving.
  std::chrono::milliseconds deadline = std::chrono::hours(1);
  // With run() in several processes: one that is silent for longer counts as lost.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);
};

// Which ranks get the model's outputs.
enum class OutputRanks : std::uint8_t {
  kNone,
  kLastStage,  // that of the last stage
  kAll,        // all: an instruction of the program, GATHER_OUTPUTS, takes them there
};

struct StepOptions {
  // Those of every microbatch, detached.
  OutputRanks outputs = OutputRanks::kNone;
  // The quantity that this step differentiates, in place of RunOptions::scale.
  std::optional<GradientScale> scale = {};
};

// What a step came to; but for the outputs the same on every rank.
struct StepResult {
  // Mean over all that the loss counted in the step, and the means of the auxiliary losses times
  // their scale: what is differentiated under GradientScale::kTokens.
  double loss = 0;
  std::int64_t count = 0;  // how much was counted: rows, tokens
  // Mean of each microbatch of all replicas without auxiliary losses, 0 where nothing is counted.
  std::vector<double> microbatch_losses;
  // The mean of each auxiliary loss, microbatches weighing by what they count; in layer order.
  std::vector<std::pair<std::string, double>> auxiliary;
  // With StepOptions::outputs: in the order of the microbatches, of this rank's replica.
  std::vector<Values> outputs;
  StepRequest request = StepRequest::kNone;  // the strongest that a rank was asked

  // With an update (StepEnd::kUpdate): the norm of all gradients before clipping, and of each
  // parameter in layer order; tied ones once, under the name of the first use; 0 without a
  // gradient.
  double grad_norm = 0;
  std::vector<std::pair<std::string, double>> parameter_norms;
  bool finite = true;  // else loss or norm is not, and nothing was updated
};

}  // namespace sluice
