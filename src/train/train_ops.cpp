#include "sluice/parts/train_ops.h"

#include <cmath>
#include <utility>

#include "base/text.h"
#include "sluice/error.h"
#include "train/parameter_list.h"
#include "train/step_loss.h"
#include "train/step_norm.h"
#include "train/tied_sums.h"
#include "train/update.h"

namespace sluice {
namespace {

const Mesh& require_one_pipeline(const Program& program) {
  if (program.mesh.num_ranks() == program.num_ranks()) return program.mesh;
  throw Error(ErrorKind::kInternal,
              {.what = "the mesh has " + counted(program.mesh.num_ranks(), "rank") +
                       ", one pipeline of it " + std::to_string(program.num_ranks()) +
                       ": gradients are not added over other axes"});
}

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
  StepLoss loss;
  Group world;
  Update update;

  double lr = 0;
  bool loss_known = false, norm_known = false;  // since the last update
  StepReport report;

  Impl(const Program& program, std::vector<Stage*> the_stages, const Group& the_world,
       const OptimizerOptions& options, std::function<StepRequest()> requested)
      : stages(std::move(the_stages)),
        parameters(list_parameters(stages, the_world, require_one_pipeline(program))),
        ties(program, parameters, the_world.rank()),
        loss(the_world, std::move(requested)),
        world(the_world),
        update(options, parameters),
        lr(options.lr) {
    require_gradients(program, parameters);
  }

  void judge() { report.finite = std::isfinite(report.loss) && std::isfinite(report.grad_norm); }
};

TrainOps::TrainOps(const Program& program, std::vector<Stage*> stages, const Group& world,
                   const OptimizerOptions& options, std::function<StepRequest()> requested)
    : impl_(std::make_unique<Impl>(program, std::move(stages), world, options,
                                   std::move(requested))) {}
TrainOps::~TrainOps() = default;

void TrainOps::watch(const Executor& executor) { impl_->loss.watch(executor); }
void TrainOps::set_learning_rate(double lr) { impl_->lr = lr; }
const StepReport& TrainOps::report() const { return impl_->report; }
const Optimizer& TrainOps::optimizer() const { return impl_->update.optimizer(); }

Work<void> TrainOps::unshard(int /*stage*/) {
  // Every rank holds the parameters of its stages whole: there is nothing to gather.
  return Work<void>::done();
}

void TrainOps::reshard(int /*stage*/) {
  // Nothing was gathered.
}

Work<void> TrainOps::reduce_gradients(int /*stage*/, std::optional<int> /*microbatch*/) {
  // With one data-parallel replica a stage's gradients are already those of the whole batch.
  return Work<void>::done();
}

Work<void> TrainOps::reduce_tied(int group) { return impl_->ties.reduce(group); }

Work<void> TrainOps::reduce_loss() {
  return impl_->loss.reduce(impl_->report).then([impl = impl_.get()] {
    impl->loss_known = true;
    impl->judge();
  });
}

Work<void> TrainOps::reduce_norm() {
  impl_->ties.sum_others();
  return post_gradient_norms(impl_->parameters, impl_->world,
                             [](const ParameterUse& use) { return use.gradient(); })
      .then([impl = impl_.get()](GradientNorms norms) {
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

void TrainOps::optimizer_step() {
  if (!impl_->loss_known || !impl_->norm_known) {
    throw Error(
        ErrorKind::kInternal,
        {.what = "OPTIMIZER_STEP without " +
                 std::string(impl_->loss_known ? "REDUCE_NORM" : "REDUCE_LOSS") + " before it"});
  }
  if (impl_->report.finite) impl_->update.run(impl_->lr, impl_->report.grad_norm);
  for (Stage* stage : impl_->stages) stage->clear_gradients();
  impl_->ties.clear();
  impl_->loss_known = impl_->norm_known = false;
}

}  // namespace sluice
