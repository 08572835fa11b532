// Trains a model as a pipeline with your own optimizer. For sluice's optimizers see trainer.h.
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
// The body runs once per rank, on a thread of its own. Use a pipeline only on that thread, and let
// only one rank write to a variable that the body captures by reference. All ranks make the same
// calls in the same order. Ranks of a replica pass the same batch, and each replica its own rows.
// Losses, gradients and norms cover all rows. During a step, an observer may only call members that
// return the rank and plan. Others throw.
//
// Results have the same bits for every number of ranks, every schedule with the same order of
// microbatches, and every number of replicas with equal gradient shards (docs/library.md).
//
// Between steps, `.grad` is the sum over all train_step() calls since it was cleared and all uses
// of a tied parameter, in the parameter's dtype (float32 for half precision). With several ranks,
// it is set only after parameters() was called or an optimizer passed. With zero1 and zero3, only
// the tensors of parameters() have it.
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
class PipelineControl;
class Trainer;
class Transport;

namespace detail {
void run_bodies(const Model&, const PipelineOptions&, const std::function<void(Pipeline&)>&,
                const RunOptions&);
}  // namespace detail

struct SaveOptions {
  // torch's AdamW, Adam, SGD, RMSprop or Adagrad, with disjoint parts of parameters().
  std::vector<const torch::optim::Optimizer*> optimizers = {};
  // Your state: UTF-8 texts and tensors, equal on all ranks except rank_tensors.
  std::map<std::string, std::string> extra = {};
  std::vector<std::pair<std::string, at::Tensor>> extra_tensors = {};
  std::vector<std::pair<std::string, at::Tensor>> rank_tensors = {};
  Commit commit = Commit::kRename;
};

struct LoadOptions {
  // In the same order as SaveOptions::optimizers.
  std::vector<torch::optim::Optimizer*> optimizers = {};
  // Whether to load rank_tensors. Requires the saved number of ranks.
  bool rank_tensors = false;
};

struct LoadedState {
  std::int64_t step = 0;  // train_step() calls before save()
  std::map<std::string, std::string> extra;
  // On the CPU.
  std::vector<std::pair<std::string, at::Tensor>> extra_tensors, rank_tensors;
};

class Pipeline {
 public:
  // Collective. Creates this rank's stages and draws weights. The arguments must outlive the
  // pipeline. Throws Error(kUsage) if plan, model, transport size or trainable modules do not
  // match.
  Pipeline(const Model& model, const Plan& plan, Transport& transport, RunOptions options = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Collective. Runs forward and backward of a batch, cut into the plan's microbatches, and adds to
  // `.grad`. Throws Error(kUsage) for a plan with StepEnd::kUpdate, inputs that are missing,
  // unknown, of unequal lengths or require a gradient, parameters that were moved or replaced, and,
  // with several ranks, a second step before parameters() was called. Throws Error(kInput) for
  // fewer rows than microbatches, or if the loss counts no token or row. Warns once if a loss is
  // not finite (see RunOptions::requires_finite).
  StepResult train_step(const Inputs& inputs, const StepOptions& options = {});
  // Collective. Runs forwards in evaluation mode, for any number of rows.
  StepResult eval_step(const Inputs& inputs, const StepOptions& options = {});
  // Collective. Runs forwards in evaluation mode without a loss, so the loss's inputs may be
  // omitted. Returns this replica's outputs by microbatch, on the given ranks.
  std::vector<Values> predict(const Inputs& inputs, OutputRanks ranks = OutputRanks::kAll);
  // Collective. Updates weights with a torch optimizer. With zero1 and zero3, also sends updated
  // weights to all replicas. A direct optimizer.step() is then refused. Throws Error(kUsage) for an
  // optimizer with other tensors or a closure (LBFGS), or (zero1, zero3) one that save() does not
  // support.
  void update(torch::optim::Optimizer& optimizer);

  // Moves the modules. Throws Error(kUsage) after parameters() or a step, and with zero3.
  void to(at::Device device);

  // This rank's trainable parameters in layer order, each once. With zero1 and zero3: flat tensors
  // with this replica's shards.
  std::vector<at::Tensor> parameters() const;
  // All uses of parameters on this rank, also frozen. With zero1 and zero3, tensors are flat
  // shards, possibly empty, so group parameters by name and global_shape, not by dim().
  std::vector<ParameterInfo> named_parameters() const;
  // This rank's parameters and buffers, not copied. A tied parameter has the name of its first use.
  // Throws Error(kUsage) with zero3, as does load_state_dict().
  std::vector<std::pair<std::string, at::Tensor>> local_state_dict() const;
  // Collective. The whole model's state in CPU copies on rank 0 (others: empty), unordered, with
  // tied parameters under all names.
  std::vector<std::pair<std::string, at::Tensor>> state_dict() const;
  // Copies this rank's parameters and buffers from `state`. Throws Error(kUsage) if one is missing
  // or has another shape.
  void load_state_dict(const std::vector<std::pair<std::string, at::Tensor>>& state);

  // Collective. Saves parameters, buffers, step count and `options`, but no gradients, as a
  // directory that replaces an older one as a whole. If writing fails, throws Error(kCheckpoint) on
  // every rank and leaves the older directory. Throws Error(kUsage) for unsuitable options.
  void save(const std::string& path, const SaveOptions& options = {});
  // Collective. Loads what this rank needs, from any layout. With the same seed, the next step
  // draws the same random numbers as the saved run would. Throws Error(kCheckpoint) for a damaged
  // checkpoint. A different model or optimizer, or missing rank tensors, are found before anything
  // changes.
  LoadedState load(const std::string& path, const LoadOptions& options = {});

  // Calls `fill` for each stage. It must set all uses of a tied parameter to the same value.
  void load_weights(const FillStage& fill);
  // Divides all gradients, for example by a token count that is known only after several steps.
  void scale_grads_by_divisor(double divisor);
  // Collective. Scales gradients to at most max_norm (0: no scaling). Returns the previous norm,
  // with equal bits on every rank.
  double clip_grad_norm(double max_norm);
  void zero_grad();
  // Throws Error(kUsage) if the optimizer holds tensors that are not in parameters().
  void check(const torch::optim::Optimizer& optimizer) const;

  int rank() const;
  int num_ranks() const;  // of all replicas
  int replica() const;
  int num_replicas() const;
  std::uint64_t seed() const;
  const Plan& plan() const;
  const Program& program() const { return plan().program; }
  std::vector<Stage*> stages() const;
  // Returns one module per layer of this rank, in order.
  std::vector<std::shared_ptr<torch::nn::Module>> modules() const;
  bool has_first_stage() const;
  bool has_last_stage() const;
  const Group& world() const;

  const StepTimes& times() const;

 private:
  friend class PipelineControl;
  friend class Trainer;
  friend void detail::run_bodies(const Model&, const PipelineOptions&,
                                 const std::function<void(Pipeline&)>&, const RunOptions&);
  struct Impl;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Plans (plan_pipeline) and runs `body` for each rank on its own thread. Each of several processes
// (docs/launching.md) must call it, and runs its share of the ranks. Returns this process's results
// in rank order. Throws the first failure, which names the rank, in all processes.
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
