// Trains a model as a pipeline. Each rank calls train_step() for gradients and uses its own
// optimizer; Trainer (trainer.h) updates within the step instead.
//
//     sluice::run(model, {.num_ranks = 4, .schedule = "ZBVZeroBubble", .num_microbatches = 8},
//                 [&](sluice::Pipeline& pipeline) {
//                   torch::optim::AdamW optimizer(pipeline.parameters(), 1e-3);
//                   for (...) {
//                     auto step = pipeline.train_step({{"x", x}, {"y", y}});
//                     pipeline.clip_grad_norm(1.0);
//                     optimizer.step();
//                     optimizer.zero_grad();
//                   }
//                 });
//
// The body runs once per rank. All ranks make the same calls in the same order. Ranks of a replica
// pass the same batch, and each replica its own rows; losses, gradients and norms cover all rows
// (docs/data-parallel.md). Ranks of one process are threads, so only one of them may write to a
// variable that the body captures by reference. Use a pipeline on its rank's thread only, and
// during a step (in an observer) only its members for rank and plan.
//
// Results have the same bits for every number of ranks, every schedule that keeps the order of
// microbatches, and every number of replicas with equal gradient shards (docs/library.md).
//
// Between steps, `.grad` is the sum over all train_step() calls since it was cleared. It has the
// parameter's dtype (half precision is summed in float32) and includes all uses of a tied
// parameter. With several ranks, it is set only after parameters() was called or an optimizer
// passed. With zero1 and zero3 it belongs to the tensors of parameters().
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

// What save() stores beside parameters and buffers.
struct SaveOptions {
  // AdamW, Adam, SGD, RMSprop or Adagrad of torch, each with some of parameters(), without overlap.
  std::vector<const torch::optim::Optimizer*> optimizers = {};
  // Your state, equal on all ranks, such as the position in the data. Texts are UTF-8.
  std::map<std::string, std::string> extra = {};
  std::vector<std::pair<std::string, at::Tensor>> extra_tensors = {};
  // Tensors of each rank; ranks may use equal names.
  std::vector<std::pair<std::string, at::Tensor>> rank_tensors = {};
  Commit commit = Commit::kRename;
};

// What load() restores beside parameters and buffers.
struct LoadOptions {
  // Get the state of their parameters by full names, in the order in which save() got them.
  std::vector<torch::optim::Optimizer*> optimizers = {};
  // Also loads this rank's rank_tensors. Refused if another number of ranks saved them.
  bool rank_tensors = false;
};

struct RankStats {
  StepTimes times;
  std::int64_t peak_bytes = 0;  // 0 without RunOptions::ledger
};

struct LoadedState {
  std::int64_t step = 0;  // train_step() calls before save()
  std::map<std::string, std::string> extra;
  // On the CPU.
  std::vector<std::pair<std::string, at::Tensor>> extra_tensors, rank_tensors;
};

class Pipeline {
 public:
  // Collective over the ranks of the plan. Creates this rank's stages and draws their weights.
  // `model`, `plan` and `transport` must outlive the pipeline. Throws Error(kUsage) for another
  // model's plan, a transport of another size, modules that train other layers than the plan, and
  // what build_stages() throws.
  Pipeline(const Model& model, const Plan& plan, Transport& transport, RunOptions options = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Collective. Runs forward and backward of a batch, cut into the plan's microbatches, and adds to
  // `.grad`. Throws Error(kUsage) for
  //
  // - a plan with StepEnd::kUpdate, whose steps are Trainer's, or a step within a step,
  // - inputs that are missing, unknown, of unequal lengths or require a gradient,
  // - parameters that were moved or replaced,
  // - several ranks, in a second step before parameters() was called.
  //
  // Throws Error(kInput) for fewer rows than microbatches, or if nothing counts. Adds the place to
  // errors of the model. Warns once about a loss that is not finite (see
  // RunOptions::requires_finite).
  StepResult train_step(const Inputs& inputs, const StepOptions& options = {});
  // Collective. Runs forwards without a graph, in evaluation mode. Takes any number of rows.
  StepResult eval_step(const Inputs& inputs, const StepOptions& options = {});
  // Same, without a loss, so inputs of the loss may be omitted. Returns the outputs of this replica
  // by microbatch, on the ranks that `ranks` names.
  std::vector<Values> predict(const Inputs& inputs, OutputRanks ranks = OutputRanks::kAll);
  // As eval_step(), for microbatches that are already cut (StepBatch::first_microbatch orders
  // them). A replica may have none, and nothing need count. Returns all losses in order, equal on
  // all ranks. Does not check that ranks agree.
  std::vector<MicrobatchLoss> evaluate(const StepBatch& batch);

  // Collective. Updates with torch's optimizer, under StepEnd::kGradients. With zero1 and zero3 it
  // also sends updated weights to all replicas; a plain optimizer.step() is then refused. Throws
  // Error(kUsage) for an optimizer that holds other tensors or needs a closure (LBFGS), and with
  // zero1 or zero3 for one other than AdamW, Adam, SGD, RMSprop and Adagrad.
  void step(torch::optim::Optimizer& optimizer);

  // Moves this rank's modules. Must precede parameters() and the first step. Throws Error(kUsage)
  // if it does not, and with zero3, whose modules must be created on their device.
  void to(at::Device device);

  // Trainable parameters of this rank in layer order, without duplicates. With zero1 and zero3:
  // this replica's blocks, flat, without those that another replica has whole.
  std::vector<at::Tensor> parameters() const;
  // All uses of parameters on this rank, including frozen ones. With zero1 and zero3 a tensor is
  // the block, possibly empty, so group parameters by name and global_shape, not by the tensor's
  // dim().
  std::vector<ParameterInfo> named_parameters() const;
  // Parameters and buffers of this rank, detached but not copied. A tied parameter appears once,
  // under its first use in the model. Throws Error(kUsage) with zero3, as load_state_dict() does.
  std::vector<std::pair<std::string, at::Tensor>> local_state_dict() const;
  // Collective. Copies of the whole model's state on the CPU of rank 0 (others: empty), unordered,
  // with tied parameters under all names.
  std::vector<std::pair<std::string, at::Tensor>> state_dict() const;
  // Copies the entries of this rank. Throws Error(kUsage) if one is missing or has another shape.
  void load_state_dict(const std::vector<std::pair<std::string, at::Tensor>>& state);

  // Collective. Saves parameters, buffers, step count and `options`, but no gradients, as the
  // directory `path`, replacing an older checkpoint as a whole. Throws Error(kCheckpoint) on every
  // rank if writing fails; the older checkpoint then remains, and training can continue. Throws
  // Error(kUsage) for an unknown optimizer, a parameter in two optimizers, or `extra` that differs
  // between ranks or is not UTF-8.
  void save(const std::string& path, const SaveOptions& options = {});
  // Collective. Loads what this rank needs, for any layout. With the same seed, the next step draws
  // the same random numbers as the saved run. Throws Error(kCheckpoint) before changing anything
  // for another model or optimizer, missing rank tensors, or a damaged checkpoint.
  LoadedState load(const std::string& path, const LoadOptions& options = {});

  // Calls `fill` for each stage of this rank, whose parameters it sets. All uses of a tied
  // parameter must get the same values.
  void load_weights(const FillStage& fill);
  // This rank's part of a checkpoint, for a Saver. Tensors are not copies. What all replicas share
  // is on replica 0. With sharded optimizer state, this is collective over `world` (default: the
  // steps' group, which a failure ends) and gathers copies.
  RankState state() const;
  RankState state(const Group& world) const;
  // Collective. Loads all that state() names. `rest` first fills what an adapter's checkpoint
  // lacks. Returns parameters of all ranks without optimizer state in the checkpoint; it starts at
  // zero, with a warning. Throws Error(kCheckpoint).
  std::vector<std::string> load_state(const Checkpoint& checkpoint, const FillStage& rest = {});

  // Divides all gradients, for instance by a count that is known only after several steps.
  void scale_grads_by_divisor(double divisor);
  // Collective. Scales gradients to a total norm of at most max_norm (0: no scaling). Returns the
  // norm before, with equal bits on every rank.
  double clip_grad_norm(double max_norm);
  void zero_grad();
  // Throws Error(kUsage) if the optimizer holds a parameter that is not in parameters(), for
  // instance because it was made before the pipeline.
  void check(const torch::optim::Optimizer& optimizer) const;

  int rank() const;
  int num_ranks() const;  // of all replicas
  // A loader divides the data by these.
  int replica() const;
  int num_replicas() const;
  std::uint64_t seed() const;
  const Plan& plan() const;
  const Program& program() const { return plan().program; }
  // In ascending order.
  std::vector<Stage*> stages() const;
  // Modules of this rank's layers, without layers that have none.
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;
  bool has_first_stage() const;
  bool has_last_stage() const;
  const Group& world() const;

  // Of the last training step on this rank.
  const StepTimes& times() const;
  // Collective. The cost of the last step on each rank. `times` are this rank's.
  std::vector<RankStats> gather_stats(const StepTimes& times) const;
  // Collective. Stages of all ranks that computed weight gradients during I (docs/numbers.md).
  std::vector<int> gather_unsplit_stages() const;
  // After a failure: the last instructions of this rank, and the index of the running one, or -1.
  std::string flight_record() const;
  int current_instruction() const;

 private:
  friend class Trainer;
  friend void detail::run_bodies(const Model&, const PipelineOptions&,
                                 const std::function<void(Pipeline&)>&, const RunOptions&);
  struct Impl;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  // A pipeline whose plan still lacks what the modules train.
  static std::unique_ptr<Impl> drafted(const Model& model, Plan draft, Transport& transport,
                                       const RunOptions& options);
  std::unique_ptr<Impl> impl_;
};

// Plans (plan_pipeline) and runs `body` for each rank on its own thread. With several processes
// (docs/launching.md), each must call it and runs its share of the ranks. Returns the results of
// this process's bodies in rank order. Throws the first failure, which names the rank, in all
// processes. Plans with describe(layers); to predict memory, plan with describe(layers, batch).
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
