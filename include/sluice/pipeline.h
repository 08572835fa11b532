// A model as a pipeline, from the side of one rank: gradients by train_step(), losses by
// eval_step(), parameters for an optimizer of torch's or of one's own.
//
// Owns: this rank's stages, their executors and the steps. Does not own: data, the optimizer, the
// other ranks.
//
// The body of a program runs once a rank, as it would in processes: every rank makes its own
// loader, passes the same batch, and makes the same calls in the same order. With replicas
// (PipelineOptions::data_parallel) the ranks of one replica pass the same batch, other replicas
// other rows; losses, gradients and norms are those of all rows (docs/data-parallel.md).
//
//   sluice::run(model, {.num_ranks = 4, .schedule = "ZBVZeroBubble", .num_microbatches = 8},
//               [&](sluice::Pipeline& pipeline) {
//                 torch::optim::AdamW optimizer(pipeline.parameters(), 1e-3);
//                 for (...) {
//                   auto step = pipeline.train_step({{"x", x}, {"y", y}});
//                   pipeline.clip_grad_norm(1.0);
//                   optimizer.step();
//                   optimizer.zero_grad();
//                 }
//               });
//
// What runs is proven: train_step() runs the plan's order, with the sums of ties and the loss at
// its end in place of the plan's norm and update, which are the caller's; eval_step() forwards
// alone. clip_grad_norm() and the check that all ranks pass the same batch are collectives beside
// them.
//
// Between a call of train_step() or eval_step() and its return nothing of the pipeline may be asked
// or changed, as by an observer: everything but what names rank and plan refuses.
//
// Ranks of one process are threads of it: what a body captures by reference, they share. Write to
// it from one of them (`if (pipeline.rank() == 0) losses.push_back(step.loss)`); nothing here can
// see who does not.
//
// Invariants:
//  1. Losses, gradients and norms are the same bits for every number of ranks, every schedule with
//     the same order of microbatches (docs/library.md), and every number of replicas at an equal
//     number of gradient shards.
//  2. Between steps, `.grad` of every parameter is all that train_step() calls have added since it
//     was last cleared (undefined, or zeroed), tied parameters summed over all their uses, in the
//     dtype of the parameter; what adds up is float32 where that is of half precision. It is never
//     reduced twice. With several ranks it is there once somebody has asked for parameters:
//     parameters(), local_parameters(), modules(), stages(), or check(), save() and load() with an
//     optimizer.
//  3. A layer's factory is called on the rank that has the layer, and on no other.
// Thread-safety: one rank's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/build_stages.h"
#include "sluice/parts/commit.h"
#include "sluice/parts/inputs.h"
#include "sluice/parts/parallelize.h"
#include "sluice/parts/whole_module.h"
#include "sluice/plan.h"

namespace torch::optim {
class Optimizer;
}

namespace sluice {

class ExecutorObserver;
class Group;
class Transport;

// Sums of gradients over ranks of one's own, as data parallelism needs them: what REDUCE_GRAD of
// the program does (program.h).
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

// How a pipeline runs, beside what its plan says.
struct RunOptions {
  // Of random numbers: initial weights, and dropout together with the number of the step.
  std::uint64_t seed = 0;
  // Of intra-operator parallelism, for each rank; 0: the cores of this machine divided among the
  // ranks. Bits are equal for equal values only.
  int threads_per_rank = 1;
  // Of what the gradients of a step are.
  GradientScale scale = {};
  GradientReduction reduction = {};
  // Told of all that the rank does. Called once, on its thread; they must outlive the pipeline.
  std::function<std::vector<ExecutorObserver*>(int rank)> observers = {};
  // Mixed precision: forwards and losses run under autocast to this type (kBFloat16), wherever a
  // step is called. Without it, under the autocast state of the thread that calls, which has to be
  // the same on all ranks. Backwards and hooks run without; a cache of casted weights is not used
  // (docs/training.md).
  std::optional<at::ScalarType> autocast = {};
  // Of a stage: a backward of one's own, in place of autograd's (parts/chunk_backward.h).
  std::function<ChunkBackwardMaker(int stage)> backward_of = {};
  // Called for each local chunk before its weights are drawn; may change and replace its modules.
  Parallelize parallelize = {};
  AxisNames axis_names = {};  // as the hook sees them
  // With run(): of every wait for another rank. Longer than any rank takes for what it does between
  // two steps, such as reading data or saving.
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
  // Of what the gradients of this step are, in place of RunOptions::scale.
  std::optional<GradientScale> scale = {};
};

struct StepResult {
  double loss = 0;         // mean over all that the loss counted in the step; on every rank
  std::int64_t count = 0;  // how much that was: rows, tokens; on every rank
  // Mean of each, 0 where nothing is counted; on every rank.
  std::vector<double> microbatch_losses;  // of all replicas
  // The mean of each auxiliary loss, microbatches weighing by what they count; in layer order; on
  // every rank.
  std::vector<std::pair<std::string, double>> auxiliary;
  // With StepOptions::outputs: in the order of the microbatches, of this rank's replica.
  std::vector<Values> outputs;
};

// What a checkpoint holds beside parameters and buffers.
struct SaveOptions {
  // One of torch's, made of parameters(): AdamW, Adam, SGD, RMSprop or Adagrad. null: no state.
  const torch::optim::Optimizer* optimizer = nullptr;
  // The caller's own, the same on all ranks: position in the data, state of a scheduler. UTF-8.
  std::map<std::string, std::string> extra = {};
  std::vector<std::pair<std::string, at::Tensor>> extra_tensors = {};
  Commit commit = Commit::kRename;
};

// What load() gives back.
struct LoadedState {
  std::int64_t step = 0;  // train_step() calls before the checkpoint was saved
  std::map<std::string, std::string> extra;
  std::vector<std::pair<std::string, at::Tensor>> extra_tensors;  // on the CPU
};

class Pipeline {
 public:
  // Collective over the ranks of the transport: those of the plan's mesh. Makes this rank's stages
  // and draws their weights (LayerSpec::initialize): on every replica those of the first. plan: of
  // this model; references must outlive the pipeline. Throws Error(kUsage) for a plan or transport
  // of another size, for zero1 and zero3, whose update needs Trainer, and what build_stages()
  // throws.
  Pipeline(const Model& model, const Plan& plan, Transport& transport, RunOptions options = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Collective. Forward and backward of the whole batch, cut into the plan's microbatches; adds to
  // `.grad` of this rank's parameters. Throws Error(kUsage) for inputs that are missing, unknown,
  // of different lengths or require a gradient, for parameters that were swapped or moved, for a
  // second step of several ranks when nobody has asked for the parameters (an optimizer then holds
  // others; with one rank it is a warning of the log), and
  // within another step; Error(kInput) for fewer rows than microbatches or a batch in which nothing
  // is counted; and what the model throws, with rank, instruction, stage and layer. A loss that is
  // not finite is a warning of the log, once.
  StepResult train_step(const Inputs& inputs, const StepOptions& options = {});
  // Collective. Forward only, without a graph; any number of rows. Modules are in evaluation mode
  // meanwhile, and then each in the mode that it was in.
  StepResult eval_step(const Inputs& inputs, const StepOptions& options = {});

  // Moves all modules of this rank. Before the first step, and before parameters() are asked for:
  // an optimizer holds them. Throws Error(kUsage) later.
  void to(at::Device device);

  // This rank's trainable parameters in layer order, each storage once: what an optimizer takes.
  std::vector<at::Tensor> parameters() const;
  // All of this rank's, frozen ones too, by their full names; a tied one once, under the name of
  // its first use in the model, wherever that is.
  std::vector<std::pair<std::string, at::Tensor>> local_parameters() const;
  // Parameters and buffers of this rank under the names of the whole model, detached, not copied.
  std::vector<std::pair<std::string, at::Tensor>> local_state_dict() const;
  // Copies into them. Entries of other ranks' layers are left out; throws Error(kUsage) for a name
  // of this rank that is missing, and for another shape.
  void load_state_dict(const std::vector<std::pair<std::string, at::Tensor>>& state);

  // Collective. Saves parameters, buffers, the number of steps and what the options say as the
  // directory `path`, which appears, or replaces an older checkpoint, as a whole
  // (docs/checkpoints.md); gradients are not saved. Throws Error(kCheckpoint) on every rank when it
  // cannot be written: what was there before is there still, and the pipeline can go on. Throws
  // Error(kUsage) for an optimizer that is not known, and extra state that differs between ranks or
  // is no UTF-8.
  void save(const std::string& path, const SaveOptions& options = {});
  // Collective. Reads, of the directory, what this rank needs, whatever layout saved it; with the
  // same RunOptions::seed the next train_step() draws the random numbers that it would have drawn
  // there. optimizer: gets its
  // state, by full names. Throws Error(kCheckpoint) for a checkpoint of another model or optimizer,
  // and before anything is written; for one that is damaged, as the hashes of what this rank reads
  // tell.
  LoadedState load(const std::string& path, torch::optim::Optimizer* optimizer = nullptr);

  // Divides all gradients by `divisor`, above 0, as for a count that is known after the steps.
  void scale_grads_by_divisor(double divisor);
  // Collective. Scales all gradients so that their norm over all ranks is at most max_norm (0: does
  // not scale). Returns the norm before, the same bits on every rank.
  double clip_grad_norm(double max_norm);
  // As the optimizer's: undefines `.grad`.
  void zero_grad();
  // Throws Error(kUsage) for an optimizer that holds a parameter which is not one of parameters():
  // made before the pipeline, or of another rank's layers. train_step() cannot see that where
  // parameters() were asked for as well, as to count them.
  void check(const torch::optim::Optimizer& optimizer) const;

  int rank() const;
  int num_ranks() const;  // of all replicas
  // Which of the replicas this rank is of (PipelineOptions::data_parallel), and how many there are:
  // what a loader divides the data by.
  int replica() const;
  int num_replicas() const;
  std::uint64_t seed() const;
  const Plan& plan() const;
  // What train_step() runs, once it has: without what is there for frozen parameters alone, which
  // the plan need not know. Throws Error(kUsage) before the first train_step().
  const Program& program() const;
  // Of this rank, ascending.
  std::vector<Stage*> stages() const;
  // The module of every layer of this rank that has one of its own, in their order; of a whole
  // module one a stage.
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;
  bool has_first_stage() const;
  bool has_last_stage() const;
  const Group& world() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Plans (plan_pipeline), then runs `body` once a rank, on a thread for each. In one process of
// several that a launcher has started (docs/launching.md), those are its share of the ranks, and
// every process makes the call. Returns when all have ended; throws the first failure, the same in
// all processes, whose message names the rank. The plan is made of what layers say of themselves;
// for prediction of memory, plan with describe(layers, batch).
void run(const Model& model, const PipelineOptions& options,
         const std::function<void(Pipeline&)>& body, const RunOptions& run_options = {});

}  // namespace sluice
