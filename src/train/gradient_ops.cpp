#include "train/gradient_ops.h"

#include <utility>

#include "sluice/error.h"
#include "train/step_loss.h"

namespace sluice {
namespace {

double mean(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0.0;
}

StepResult result_of(const GatheredLosses& losses) {
  StepResult result;
  result.count = losses.count();
  result.loss = mean(losses.sum(), result.count);
  for (const MicrobatchLoss& loss : losses.of_microbatches)
    result.microbatch_losses.push_back(mean(loss.sum, loss.count));
  result.auxiliary = losses.auxiliary();
  return result;
}

[[noreturn]] void refuse(const char* instruction) {
  throw Error(ErrorKind::kInternal,
              {.what = std::string(instruction) + " in a program whose update is the user's"});
}

}  // namespace

GradientOps::GradientOps(const Program& program, const std::vector<SharedParameter>& parameters,
                         const std::vector<Stage*>& stages, const RunGroups& groups,
                         OutputWatch& outputs, GradientReduction reduction,
                         const DataParallel& data_parallel)
    : ties_(program, parameters, groups.place()),
      reductions_(program, stages, std::move(reduction)),
      replicas_(program, stages, BlockOwners(stages, groups.num_replicas), groups, data_parallel),
      outputs_(outputs),
      groups_(groups) {}

void GradientOps::finish_ties() {
  ties_.sum_others();
  ties_.clear();
}

// Parameters are whole.
Work<void> GradientOps::unshard(int /*stage*/) { return Work<void>::done(); }
void GradientOps::reshard(int /*stage*/) {}
Work<void> GradientOps::reduce_gradients(int stage, std::optional<int> microbatch) {
  if (groups_.num_replicas > 1) return replicas_.reduce(stage, microbatch);
  reductions_.reduce(stage, microbatch);
  return Work<void>::done();
}

Work<void> GradientOps::reduce_tied(int group) { return ties_.reduce(group); }

Work<void> GradientOps::reduce_loss() {
  return post_losses(groups_.world, executor_, StepRequest::kNone)
      .then([this](const GatheredLosses& losses) {
        result_ = result_of(losses);
        losses_ = losses.of_microbatches;
      });
}

Work<void> GradientOps::gather_outputs() { return outputs_.gather(groups_.pipeline); }

Work<void> GradientOps::reduce_norm() { refuse("REDUCE_NORM"); }
IdleWork GradientOps::partial_norm(int /*stage*/) { refuse("PARTIAL_NORM"); }
Work<void> GradientOps::update(int /*stage*/) { refuse("UPDATE"); }
void GradientOps::optimizer_step() { refuse("OPTIMIZER_STEP"); }

}  // namespace sluice
