// A model as a pipeline, from the side of one rank: gradients by train_step(), losses by
// eval_step(), parameters for an optimizer of torch's or of your own. With Trainer (trainer.h) the
// update is part of the step.
//
// The body of run() is called once for each rank, as it would be in processes: every rank makes its
// own loader, passes the same batch, and makes the same calls in the same order. With replicas
// (PipelineOptions::data_parallel) the ranks of one replica pass the same batch, each replica its
// own rows; losses, gradients and norms are those of all rows (docs/data-parallel.md).
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
// Within a step, for instance in an observer, every member throws except those that name rank and
// plan. Ranks of one process are threads and share what a body captures by reference: let only one
// of them write to it.
//
// Invariants:
//  1. Losses, gradients and norms are the same bits for every number of ranks, every schedule with
//     the same order of microbatches (docs/library.md), and every number of replicas at an equal
//     number of gradient shards.
//  2. Between steps, `.grad` of every parameter is the sum of what train_step() calls have added
//     since it was last cleared (undefined, or zeroed), tied parameters summed over all their uses,
//     in the dtype of the parameter (sums of half precision are float32), never reduced twice. With
//     several ranks it is set once any call has asked for parameters or passed an optimizer; with
//     own blocks (zero1, zero3) it belongs to the tensors of parameters().
//  3. A layer's factory is called only on the rank that has the layer.
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
  // torch's optimizers, each made with some of parameters(), no parameter in two of them: AdamW,
  // Adam, SGD, RMSprop or Adagrad.
  std::vector<const torch::optim::Optimizer*> optimizers = {};
  // Your own state, the same on all ranks: position in the data, state of a scheduler. UTF-8.
  std::map<std::string, std::string> extra = {};
  std::vector<std::pair<std::string, at::Tensor>> extra_tensors = {};
  // Your own tensors of each rank; ranks may use the same names.
  std::vector<std::pair<std::string, at::Tensor>> rank_tensors = {};
  Commit commit = Commit::kRename;
};

// The state that load() fills or returns beside parameters and buffers.
struct LoadOptions {
  // Optimizers that get their parameters' state, by full names; kinds come in the order in which
  // they were saved.
  std::vector<torch::optim::Optimizer*> optimizers = {};
  // True: also loads the rank tensors that the rank of this number saved. Refused if another number
  // of ranks saved them.
  bool rank_tensors = false;
};

// The cost of a step for one rank. Bytes are of tensors, 0 without RunOptions::ledger.
struct RankStats {
  StepTimes times;
  std::int64_t peak_bytes = 0;  // most bytes held at once
};

// The result of load().
struct LoadedState {
  std::int64_t step = 0;  // train_step() calls before the checkpoint was saved
  std::map<std::string, std::string> extra;
  // Tensors on the CPU.
  std::vector<std::pair<std::string, at::Tensor>> extra_tensors, rank_tensors;
};

class Pipeline {
 public:
  // Collective over the ranks of the transport, which are those of the plan's mesh. Makes this
  // rank's stages, agrees with all ranks on what trains, and draws the weights
  // (LayerSpec::initialize), the same on every replica. plan: a plan of this model; references must
  // outlive the pipeline. Throws Error(kUsage) for a plan or transport of another size, for modules
  // that train other layers than the plan (on every rank, naming one), and what build_stages()
  // throws.
  Pipeline(const Model& model, const Plan& plan, Transport& transport, RunOptions options = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Collective. Forward and backward of the whole batch, cut into the plan's microbatches; adds to
  // `.grad` of this rank's parameters. Throws Error(kUsage) for a plan with StepEnd::kUpdate, whose
  // steps are Trainer's; for inputs that are missing, unknown, of different lengths or require a
  // gradient; for parameters that were swapped or moved; with several ranks, for a second step
  // before any call has asked for the parameters (an optimizer then holds others; with one rank the
  // log warns); and within another step. Throws Error(kInput) for fewer rows than microbatches or a
  // batch in which nothing is counted; and what the model throws, with rank, instruction, stage and
  // layer. A loss that is not finite is logged as a warning, once, or refused
  // (RunOptions::requires_finite).
  StepResult train_step(const Inputs& inputs, const StepOptions& options = {});
  // Collective. Forward only, without a graph; any number of rows. Modules are in evaluation mode
  // meanwhile, and then return to their former modes.
  StepResult eval_step(const Inputs& inputs, const StepOptions& options = {});
  // Collective. The model's outputs without a loss: inputs that only the loss reads may be left
  // out. Any number of rows; modules are in evaluation mode meanwhile. Returns those of this rank's
  // replica in the order of the microbatches, on the ranks that `ranks` names; empty on others.
  std::vector<Values> predict(const Inputs& inputs, OutputRanks ranks = OutputRanks::kAll);
  // As eval_step(), for microbatches that are already cut; each replica passes its own, or none
  // (StepBatch::first_microbatch gives the order), and nothing need be counted in them. Returns the
  // losses of all microbatches in order, the same on every rank. Does not check that ranks agree.
  std::vector<MicrobatchLoss> evaluate(const StepBatch& batch);

  // Collective. One update by torch's optimizer, made with parameters(), under a plan with
  // StepEnd::kGradients, of which this is the second program, proven too. With own blocks (zero1,
  // zero3) all replicas have the updated weights afterwards; a plain optimizer.step() is then
  // refused at the next call. Throws Error(kUsage) for an optimizer that holds other tensors
  // (check()) or needs a closure (LBFGS), and with blocks for one that is not known to work element
  // by element: AdamW, Adam, SGD, RMSprop and Adagrad are.
  void step(torch::optim::Optimizer& optimizer);

  // Moves all modules of this rank. Call it before the first step, and before parameters(), which
  // an optimizer would hold. Throws Error(kUsage) later, and with zero3, where modules have to be
  // made on the device where they stay.
  void to(at::Device device);

  // This rank's trainable parameters in layer order, each storage once, for an optimizer. With
  // zero1 and zero3 this replica's own blocks of them, flat; a parameter that is wholly another
  // replica's is left out.
  std::vector<at::Tensor> parameters() const;
  // All uses of parameters on this rank's stages, in order, frozen ones too, with whole shape and
  // tie. Where parameters() are blocks, the tensor is the block, empty if another replica has the
  // whole: make an optimizer's groups by names and global_shape, not by dim() of the tensor.
  std::vector<ParameterInfo> named_parameters() const;
  // Parameters and buffers of this rank under the names of the whole model, detached, not copied; a
  // tied parameter once, under the name of its first use in the model, wherever that is. Throws
  // Error(kUsage) with zero3, as load_state_dict() does.
  std::vector<std::pair<std::string, at::Tensor>> local_state_dict() const;
  // Collective. The state of the whole model, tied parameters under all their names: copies on the
  // CPU, in no particular order, on rank 0; empty on others.
  std::vector<std::pair<std::string, at::Tensor>> state_dict() const;
  // Copies the entries of this rank's layers into its parameters and buffers. Throws Error(kUsage)
  // for a name of this rank that is missing, and for another shape.
  void load_state_dict(const std::vector<std::pair<std::string, at::Tensor>>& state);

  // Collective. Saves parameters, buffers, the number of steps and the state in `options` as the
  // directory `path`, which appears, or replaces an older checkpoint, as a whole
  // (docs/checkpoints.md); gradients are not saved. Throws Error(kCheckpoint) on every rank when it
  // cannot be written: an older checkpoint is then still there, and the pipeline can continue.
  // Throws Error(kUsage) for an unknown optimizer, a parameter in two optimizers, and extra state
  // that differs between ranks or is not UTF-8.
  void save(const std::string& path, const SaveOptions& options = {});
  // Collective. Reads the part of the directory that this rank needs, whatever layout saved it;
  // with the same RunOptions::seed the next train_step() draws the random numbers that it would
  // have drawn in the saved run. Throws Error(kCheckpoint), before anything is written, for a
  // checkpoint of another model or optimizer, or without the rank tensors that are asked for; and
  // for one that is damaged, by the hashes of the tensors that this rank reads.
  LoadedState load(const std::string& path, const LoadOptions& options = {});

  // Calls `fill` for each stage of this rank, with memory for all its parameters; training starts
  // from the values that it sets. All uses of a tied parameter must get the same.
  void load_weights(const FillStage& fill);
  // This rank's part of a checkpoint, by full name, for a Saver: parameters, buffers, with Trainer
  // the optimizer's state; what all replicas hold alike is on replica 0. The tensors are those that
  // train, not copies. Where optimizer state is sharded: collective over `world` (a group of the
  // same ranks; by default that of the steps, which a failure ends), gathered into copies, each
  // tensor on the replica that writes it.
  RankState state() const;
  RankState state(const Group& world) const;
  // Collective. Fills all that state() names, whatever layout saved it; rest: called before for
  // each stage, for what a checkpoint of an adapter alone lacks. Returns the parameters of all
  // ranks that Trainer updates and that have no optimizer state in the checkpoint: theirs starts at
  // zero, with a warning in the log. Throws Error(kCheckpoint), for instance for the state of
  // another kind of optimizer.
  std::vector<std::string> load_state(const Checkpoint& checkpoint, const FillStage& rest = {});

  // Divides all gradients by `divisor`, above 0, for instance by a count that is known only after
  // the steps.
  void scale_grads_by_divisor(double divisor);
  // Collective. Scales all gradients so that their norm over all ranks is at most max_norm (0: does
  // not scale). Returns the norm before scaling, the same bits on every rank.
  double clip_grad_norm(double max_norm);
  // Like the optimizer's zero_grad(): undefines `.grad`.
  void zero_grad();
  // Throws Error(kUsage) for an optimizer that holds a parameter which is not one of parameters():
  // made before the pipeline, or of another rank's layers. train_step() cannot detect that if
  // parameters() was called too, for instance to count them.
  void check(const torch::optim::Optimizer& optimizer) const;

  int rank() const;
  int num_ranks() const;  // ranks of all replicas
  // The replica that this rank belongs to (PipelineOptions::data_parallel), and the number of
  // replicas, by which a loader divides the data.
  int replica() const;
  int num_replicas() const;
  std::uint64_t seed() const;
  const Plan& plan() const;
  const Program& program() const { return plan().program; }
  // The stages of this rank, ascending.
  std::vector<Stage*> stages() const;
  // The modules of this rank's layers, in their order, without layers that have none; of a whole
  // module one for each stage.
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;
  bool has_first_stage() const;
  bool has_last_stage() const;
  const Group& world() const;

  // The times of the last training step, of this rank's row; zeros before the first.
  const StepTimes& times() const;
  // Collective. The cost of the last step for each rank. times: those of this rank.
  std::vector<RankStats> gather_stats(const StepTimes& times) const;
  // Collective. The stages of all ranks that have had to compute every weight gradient during I
  // (docs/numbers.md), ascending, the same on every rank.
  std::vector<int> gather_unsplit_stages() const;
  // After a failure: the last instructions of this rank in the step or evaluation that ran last,
  // and the index in the program of the running one, -1 if none was.
  std::string flight_record() const;
  int current_instruction() const;

 private:
  friend class Trainer;
  friend void detail::run_bodies(const Model&, const PipelineOptions&,
                                 const std::function<void(Pipeline&)>&, const RunOptions&);
  struct Impl;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  // Makes a pipeline of a plan that the modules have yet to finish.
  static std::unique_ptr<Impl> drafted(const Model& model, Plan draft, Transport& transport,
                                       const RunOptions& options);
  std::unique_ptr<Impl> impl_;
};

// Plans (plan_pipeline), then runs `body` once for each rank, on its own thread. If a launcher has
// started several processes (docs/launching.md), every process makes the call and runs its share of
// the ranks. Returns when all have ended: the results of the bodies in this process, in the order
// of the ranks, if they return any. Throws the first failure, the same in all processes, whose
// message names the rank. The split uses the layers' own descriptions (describe(layers)); the
// program is made and proven when it is known from all ranks' modules what trains. To predict
// memory, plan with describe(layers, batch).
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
