// A model as a pipeline, from the side of one rank: gradients by train_step(), losses by
// eval_step(), parameters for an optimizer of torch's or of your own. With Trainer (trainer.h) the
// update is part of the step.
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
// Every step runs the plan's program, or its forwards alone, proven before a weight is drawn;
// clip_grad_norm() and the check that all ranks pass the same batch are collectives beside it.
//
// Within a step, as from an observer, everything but what names rank and plan refuses. Ranks of one
// process are threads of it and share what a body captures by reference: write to it from one.
//
// Invariants:
//  1. Losses, gradients and norms are the same bits for every number of ranks, every schedule with
//     the same order of microbatches (docs/library.md), and every number of replicas at an equal
//     number of gradient shards.
//  2. Between steps, `.grad` of every parameter is all that train_step() calls have added since it
//     was last cleared (undefined, or zeroed), tied parameters summed over all their uses, in the
//     dtype of the parameter (sums of half precision are float32), never reduced twice. With
//     several ranks it is there once somebody has asked for parameters, by whatever call, or given
//     an optimizer; with own blocks (zero1, zero3) it is that of parameters().
//  3. A layer's factory is called on the rank that has the layer, and on no other.
// Thread-safety: one rank's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/model.h"
#include "sluice/options.h"
#include "sluice/parts/observers.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/saver.h"
#include "sluice/parts/stage.h"
#include "sluice/parts/values.h"
#include "sluice/parts/whole_module.h"
#include "sluice/plan.h"

namespace torch::optim {
class Optimizer;
}

namespace sluice {

class Checkpoint;
class Group;
class Pipeline;
class Trainer;
class Transport;

namespace detail {
void run_bodies(const Model&, const PipelineOptions&, const std::function<void(Pipeline&)>&,
                const RunOptions&);
}  // namespace detail

// The state of a checkpoint beside parameters and buffers.
struct SaveOptions {
  // Optimizers of torch's, each made of some of parameters(), none of which two have: AdamW, Adam,
  // SGD, RMSprop or Adagrad.
  std::vector<const torch::optim::Optimizer*> optimizers = {};
  // The caller's own, the same on all ranks: position in the data, state of a scheduler. UTF-8.
  std::map<std::string, std::string> extra = {};
  std::vector<std::pair<std::string, at::Tensor>> extra_tensors = {};
  // The caller's own of each rank by itself, whatever names others have.
  std::vector<std::pair<std::string, at::Tensor>> rank_tensors = {};
  Commit commit = Commit::kRename;
};

// The state that load() fills or gives back beside parameters and buffers.
struct LoadOptions {
  // Get their parameters' state, by full names, in the order of kinds in which they were saved.
  std::vector<torch::optim::Optimizer*> optimizers = {};
  // Also those of the rank of this number. Refused where another number of ranks saved them.
  bool rank_tensors = false;
};

// The cost of a step for one rank. Bytes are of tensors, 0 without RunOptions::ledger.
struct RankStats {
  StepTimes times;
  std::int64_t peak_bytes = 0;  // the most that was held at once
};

// The result of load().
struct LoadedState {
  std::int64_t step = 0;  // train_step() calls before the checkpoint was saved
  std::map<std::string, std::string> extra;
  // On the CPU.
  std::vector<std::pair<std::string, at::Tensor>> extra_tensors, rank_tensors;
};

class Pipeline {
 public:
  // Collective over the ranks of the transport: those of the plan's mesh. Makes this rank's stages,
  // agrees with all ranks on what trains, and draws the weights (LayerSpec::initialize): on every
  // replica those of the first. plan: of this model; references must outlive the pipeline. Throws
  // Error(kUsage) for a plan or transport of another size, for modules that train other layers than
  // the plan (on every rank, naming one), and what build_stages() throws.
  Pipeline(const Model& model, const Plan& plan, Transport& transport, RunOptions options = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Collective. Forward and backward of the whole batch, cut into the plan's microbatches; adds to
  // `.grad` of this rank's parameters. Throws Error(kUsage) for a plan with StepEnd::kUpdate, whose
  // steps are Trainer's; for inputs that are missing, unknown, of different lengths or require
  // a gradient, for parameters that were swapped or moved, for a second step of several ranks when
  // nobody has asked for the parameters (an optimizer then holds others; with one rank it is a
  // warning of the log), and within another step; Error(kInput) for fewer rows than microbatches or
  // a batch in which nothing is counted; and what the model throws, with rank, instruction, stage
  // and layer. A loss that is not finite is a warning of the log, once, or refused
  // (RunOptions::requires_finite).
  StepResult train_step(const Inputs& inputs, const StepOptions& options = {});
  // Collective. Forward only, without a graph; any number of rows. Modules are in evaluation mode
  // meanwhile, and then each in the mode that it was in.
  StepResult eval_step(const Inputs& inputs, const StepOptions& options = {});
  // Collective. The model's outputs without a loss: inputs that only the loss reads may be left
  // out. Any number of rows; modules are in evaluation mode meanwhile. In the order of the
  // microbatches, of this rank's replica, on the ranks that `ranks` says, empty on others.
  std::vector<Values> predict(const Inputs& inputs, OutputRanks ranks = OutputRanks::kAll);
  // As eval_step(), of microbatches that are cut already, each replica its own, or none
  // (StepBatch::first_microbatch gives the order); also such in which nothing is counted. The
  // losses of all of them in order, the same on every rank. Whether ranks agree is not checked.
  std::vector<MicrobatchLoss> evaluate(const StepBatch& batch);

  // Collective. One update by an optimizer of torch's that is made of parameters(): under every
  // plan with StepEnd::kGradients, whose second program this is, proven too. Where each replica has
  // its own blocks (zero1, zero3) they all have the updated weights then; there a plain
  // optimizer.step() is refused at the next call. Throws Error(kUsage) for an optimizer that holds
  // other tensors (check()) or needs a closure (LBFGS), and with blocks for one that is not known
  // to go element by element: AdamW, Adam, SGD, RMSprop and Adagrad are.
  void step(torch::optim::Optimizer& optimizer);

  // Moves all modules of this rank. Before the first step, and before parameters() are asked for:
  // an optimizer holds them. Throws Error(kUsage) later, and with zero3: modules are then to be
  // made where they stay.
  void to(at::Device device);

  // This rank's trainable parameters in layer order, each storage once: what an optimizer takes.
  // With zero1 and zero3 this replica's own blocks of them, flat; those of which another replica
  // has all are left out.
  std::vector<at::Tensor> parameters() const;
  // All uses of parameters on this rank's stages, in order, frozen ones too, with whole shape and
  // tie. Where parameters() are blocks, the tensor is the block, of no elements where another
  // replica has all: groups of an optimizer go by names and global_shape, not by dim() of the
  // tensor.
  std::vector<ParameterInfo> named_parameters() const;
  // Parameters and buffers of this rank under the names of the whole model, detached, not copied; a
  // tied parameter once, under the name of its first use in the model, wherever that is. Throws
  // Error(kUsage) with zero3, as load_state_dict().
  std::vector<std::pair<std::string, at::Tensor>> local_state_dict() const;
  // Collective. The whole model's, tied parameters under all their names: copies on the CPU, in no
  // particular order, on rank 0; empty on others.
  std::vector<std::pair<std::string, at::Tensor>> state_dict() const;
  // Copies into this rank's. Entries of other ranks' layers are left out; throws Error(kUsage) for
  // a name of this rank that is missing, and for another shape.
  void load_state_dict(const std::vector<std::pair<std::string, at::Tensor>>& state);

  // Collective. Saves parameters, buffers, the number of steps and what the options say as the
  // directory `path`, which appears, or replaces an older checkpoint, as a whole
  // (docs/checkpoints.md); gradients are not saved. Throws Error(kCheckpoint) on every rank when it
  // cannot be written: what was there before is there still, and the pipeline can go on. Throws
  // Error(kUsage) for an optimizer that is not known, a parameter that two have, and extra state
  // that differs between ranks or is no UTF-8.
  void save(const std::string& path, const SaveOptions& options = {});
  // Collective. Reads, of the directory, what this rank needs, whatever layout saved it; with the
  // same RunOptions::seed the next train_step() draws the random numbers that it would have drawn
  // there. Throws Error(kCheckpoint) for a checkpoint of another model or optimizer, or without the
  // rank tensors that are asked for, before anything is written; for one that is damaged, as the
  // hashes of what this rank reads tell.
  LoadedState load(const std::string& path, const LoadOptions& options = {});

  // Calls `fill` for each stage of this rank, with memory for all its parameters; what is there
  // then is trained. All uses of a tied parameter are to get the same.
  void load_weights(const FillStage& fill);
  // The state of a checkpoint that is this rank's, by full name: parameters, buffers, with Trainer
  // the optimizer's state; what all replicas hold alike, on replica 0. To be saved by a Saver; the
  // tensors are those that train, not copies. Where optimizer state is sharded: collective, over
  // `world` (of the same ranks; that of the steps where it is not given, which a failure ends),
  // gathered into copies, each tensor on the replica that writes it.
  RankState state() const;
  RankState state(const Group& world) const;
  // Collective. Fills all that state() says, whatever layout saved it; rest: called for each stage
  // before, for what a checkpoint of an adapter alone does not have. Returns the parameters of all
  // ranks that Trainer updates and that have no optimizer state there: it starts at zero, which is
  // a warning of the log. Throws Error(kCheckpoint), as for the state of another kind of optimizer.
  std::vector<std::string> load_state(const Checkpoint& checkpoint, const FillStage& rest = {});

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
  const Program& program() const { return plan().program; }
  // The stages of this rank, ascending.
  std::vector<Stage*> stages() const;
  // The module of every layer of this rank that has one of its own, in their order; of a whole
  // module one a stage.
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;
  bool has_first_stage() const;
  bool has_last_stage() const;
  const Group& world() const;

  // The last training step, of this rank's row; zeros before the first.
  const StepTimes& times() const;
  // Collective. One entry a rank, of the last step. times: what this rank has to say of its own.
  std::vector<RankStats> gather_stats(const StepTimes& times) const;
  // Collective. The stages, of all ranks, that had to compute every weight gradient during I, so
  // far (docs/split-backward.md). The same on every rank, ascending.
  std::vector<int> gather_unsplit_stages() const;
  // After a failure: the last instructions of this rank, in the step or evaluation that ran last,
  // and the index of the program's that was running, -1 if none was.
  std::string flight_record() const;
  int current_instruction() const;

 private:
  friend class Trainer;
  friend void detail::run_bodies(const Model&, const PipelineOptions&,
                                 const std::function<void(Pipeline&)>&, const RunOptions&);
  struct Impl;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  // For a plan that the modules have yet to finish.
  static std::unique_ptr<Impl> drafted(const Model& model, Plan draft, Transport& transport,
                                       const RunOptions& options);
  std::unique_ptr<Impl> impl_;
};

// Plans (plan_pipeline), then runs `body` once a rank, on a thread for each. In one process of
// several that a launcher has started (docs/launching.md), those are its share of the ranks, and
// every process makes the call. Returns when all have ended, what the bodies of the ranks here have
// returned, in the order of the ranks, where they return something; throws the first failure, the
// same in all processes, whose message names the rank. Layers are placed and cut by what they say
// of themselves; the program is made and proven when all ranks' modules have said what trains. For
// prediction of memory, plan with describe(layers, batch).
template <typename Body>
auto run(const Model& model, const PipelineOptions& options, Body&& body,
         const RunOptions& run_options = {}) {
  static_assert(std::is_invocable_v<Body&, Pipeline&>,
                "the body of sluice::run() takes a sluice::Pipeline&");
  using Result = std::decay_t<std::invoke_result_t<Body&, Pipeline&>>;
  if constexpr (std::is_void_v<Result>) {
    detail::run_bodies(model, options, std::ref(body), run_options);
  } else {
    std::map<int, Result> of_rank;
    std::mutex mutex;
    detail::run_bodies(
        model, options,
        [&](Pipeline& pipeline) {
          Result result = body(pipeline);
          const std::lock_guard lock(mutex);
          of_rank.emplace(pipeline.rank(), std::move(result));
        },
        run_options);
    std::vector<Result> results;
    for (auto& [rank, result] : of_rank) results.push_back(std::move(result));
    return results;
  }
}

}  // namespace sluice
