#include "sluice/parts/train_ops.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sluice/error.h"
#include "train/parameter_list.h"
#include "train/replica_sums.h"
#include "train/sharded_parameters.h"
#include "train/sharded_state.h"
#include "train/step_loss.h"
#include "train/step_norm.h"
#include "train/tied_sums.h"
#include "train/update.h"

namespace sluice {
namespace {

// A program made for less than what trains would leave it without gradients.
void require_gradients(const Program& program, const std::vector<SharedParameter>& parameters) {
  for (const SharedParameter& parameter : parameters) {
    for (const ParameterUse& use : parameter.uses) {
      if (!use.stage || has_weight_gradients(program.backward_of(use.stage->index()))) continue;
      if (program.forward_only) continue;
      throw Error(
          ErrorKind::kUsage,
          {.what = "'" + use.name + "' trains, but the program has no gradients for stage " +
                   std::to_string(use.stage->index()),
           .where = "TrainOps",
           .remedy = "plan with a ModelSpec that says what trains, or freeze it in "
                     "LayerSpec::make"});
    }
  }
}

}  // namespace

struct TrainOps::Impl {
  std::vector<Stage*> stages;
  std::vector<SharedParameter> parameters;
  TiedSums ties;
  const RunGroups groups;
  const Mesh mesh;
  const BlockOwners owners;
  const bool shards_state;
  std::unique_ptr<ShardedParameters> sharded;  // null: whole
  ReplicaSums replicas;
  StepLoss loss;
  StepNorms norms;
  const OptimizerKind kind;
  Update update;

  double lr = 0;
  bool loss_known = false, norm_known = false;  // of this step
  std::set<int> updated;                        // stages, since then
  StepReport report;

  Impl(const Program& program, std::vector<Stage*> the_stages, const RunGroups& the_groups,
       const OptimizerOptions& options, const DataParallel& data_parallel,
       std::function<StepRequest()> requested)
      : stages(std::move(the_stages)),
        parameters(
            list_parameters(stages, the_groups.pipeline, Mesh({.pp = the_groups.pipeline.size()}))),
        ties(program, parameters, the_groups.place()),
        groups(the_groups),
        mesh(program.mesh),
        owners(stages, groups.num_replicas),
        shards_state(groups.num_replicas > 1 && (data_parallel.zero1 || data_parallel.zero3)),
        sharded(groups.num_replicas > 1 && data_parallel.zero3
                    ? std::make_unique<ShardedParameters>(stages, owners, groups)
                    : nullptr),
        replicas(program, stages, owners, groups, data_parallel,
                 shards_state ? [this](int stage,
                                       std::size_t parameter) { return is_tied(stage, parameter); }
                              : std::function<bool(int, std::size_t)>()),
        loss(groups.world, std::move(requested)),
        norms(parameters, shards_state ? &owners : nullptr, groups, mesh),
        kind(options.kind),
        update(options, parameters, shards_state ? &owners : nullptr, groups, sharded.get()),
        lr(options.lr) {
    require_gradients(program, parameters);
  }

  // Its sum over the uses takes all elements.
  bool is_tied(int stage, std::size_t index) const {
    return std::any_of(parameters.begin(), parameters.end(), [&](const SharedParameter& parameter) {
      return parameter.uses.size() > 1 &&
             std::any_of(parameter.uses.begin(), parameter.uses.end(),
                         [&](const ParameterUse& use) {
                           return use.stage && use.stage->index() == stage && use.index == index;
                         });
    });
  }

  ShardedState sharded_state() const { return {kind, update.optimizer(), parameters, owners}; }

  void require_known(const char* instruction) const {
    if (loss_known && norm_known) return;
    throw Error(ErrorKind::kInternal,
                {.what = std::string(instruction) + " without " +
                         (loss_known ? "REDUCE_NORM" : "REDUCE_LOSS") + " before it"});
  }

  void begin_end_of_step() {
    loss_known = norm_known = false;
    updated.clear();
  }

  // The step's gradients end with the first UPDATE: whatever ties there were is summed.
  Work<void> update_stage(int index) {
    const auto stage = std::find_if(stages.begin(), stages.end(),
                                    [&](const Stage* own) { return own->index() == index; });
    Work<void> work = report.finite ? update.run(index, lr, report.grad_norm) : Work<void>::done();
    (*stage)->clear_gradients();
    ties.clear();
    updated.insert(index);
    return work;
  }

  void judge() { report.finite = std::isfinite(report.loss) && std::isfinite(report.grad_norm); }
};

TrainOps::TrainOps(const Program& program, std::vector<Stage*> stages, const RunGroups& groups,
                   const OptimizerOptions& options, const DataParallel& data_parallel,
                   std::function<StepRequest()> requested)
    : impl_(std::make_unique<Impl>(program, std::move(stages), groups, options, data_parallel,
                                   std::move(requested))) {}
TrainOps::~TrainOps() = default;

void TrainOps::watch(const Executor& executor, std::vector<AuxiliaryLoss> auxiliary) {
  impl_->loss.watch(executor, std::move(auxiliary));
}
void TrainOps::set_learning_rate(double lr) { impl_->lr = lr; }
const StepReport& TrainOps::report() const { return impl_->report; }
const Optimizer& TrainOps::optimizer() const { return impl_->update.optimizer(); }

ShardedParameters* TrainOps::sharded_parameters() const { return impl_->sharded.get(); }
bool TrainOps::shards_state() const { return impl_->shards_state; }
NamedTensors TrainOps::gather_state(const RunGroups& groups) const {
  return gather_whole(list_state(impl_->sharded_state(), groups), groups);
}
std::vector<std::string> TrainOps::load_state(const Checkpoint& checkpoint) {
  if (!impl_->shards_state) return load_optimizer(checkpoint, optimizer().state());
  return load_optimizer(checkpoint, parts_of(impl_->sharded_state(), impl_->groups.replica));
}

Work<void> TrainOps::unshard(int stage) {
  // Else every rank holds the parameters of its stages whole.
  return impl_->sharded ? impl_->sharded->unshard(stage) : Work<void>::done();
}

void TrainOps::reshard(int stage) {
  if (impl_->sharded) impl_->sharded->reshard(stage);
}

Work<void> TrainOps::reduce_gradients(int stage, std::optional<int> microbatch) {
  return impl_->replicas.reduce(stage, microbatch);
}

Work<void> TrainOps::reduce_tied(int group) { return impl_->ties.reduce(group); }

Work<void> TrainOps::reduce_loss() {
  impl_->begin_end_of_step();
  return impl_->loss.reduce(impl_->report).then([impl = impl_.get()] {
    impl->loss_known = true;
    impl->judge();
  });
}

IdleWork TrainOps::partial_norm(int stage) {
  return impl_->norms.of_stage(stage, [impl = impl_.get()](const SharedParameter& parameter) {
    return impl->ties.is_summed(parameter);
  });
}

Work<void> TrainOps::reduce_norm() {
  impl_->ties.sum_others();
  return impl_->norms.post().then([impl = impl_.get()](GradientNorms norms) {
    impl->report.grad_norm = norms.total;
    impl->report.parameter_norms = std::move(norms.of_parameters);
    impl->norm_known = true;
    impl->judge();
  });
}

Work<void> TrainOps::gather_outputs() {
  // An order of the user's may have it; nobody asks a Trainer for outputs.
  return Work<void>::done();
}

Work<void> TrainOps::update(int stage) {
  impl_->require_known("UPDATE");
  return impl_->update_stage(stage);
}

void TrainOps::optimizer_step() {
  impl_->require_known("OPTIMIZER_STEP");
  std::vector<Work<void>> works;
  for (const Stage* stage : impl_->stages) {
    if (!impl_->updated.contains(stage->index()))
      works.push_back(impl_->update_stage(stage->index()));
  }
  for (Work<void>& work : works) work.wait();
  impl_->begin_end_of_step();  // of the next
}

}  // namespace sluice
