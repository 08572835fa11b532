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
                         const std::vector<Stage*>& stages, Group world, OutputWatch& outputs,
                         GradientReduction reduction)
    : ties_(program, parameters, world.rank()),
      reductions_(program, stages, std::move(reduction)),
      outputs_(outputs),
      world_(std::move(world)) {}

void GradientOps::finish_ties() {
  ties_.sum_others();
  ties_.clear();
}

// Parameters are whole.
Work<void> GradientOps::unshard(int /*stage*/) { return Work<void>::done(); }
void GradientOps::reshard(int /*stage*/) {}
Work<void> GradientOps::reduce_gradients(int stage, std::optional<int> microbatch) {
  reductions_.reduce(stage, microbatch);
  return Work<void>::done();
}

Work<void> GradientOps::reduce_tied(int group) { return ties_.reduce(group); }

Work<void> GradientOps::reduce_loss() {
  return post_losses(world_, executor_, StepRequest::kNone)
      .then([this](const GatheredLosses& losses) {
        result_ = result_of(losses);
        losses_ = losses.of_microbatches;
      });
}

Work<void> GradientOps::gather_outputs() { return outputs_.gather(world_); }

Work<void> GradientOps::reduce_norm() { refuse("REDUCE_NORM"); }
void GradientOps::optimizer_step() { refuse("OPTIMIZER_STEP"); }

}  // namespace sluice
