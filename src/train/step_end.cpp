#include "train/step_end.h"

#include <utility>

#include "engine/executor.h"
#include "layer/call_place.h"
#include "sluice/error.h"
#include "train/step_loss.h"

namespace sluice {
namespace {

std::function<bool(int, std::size_t)> needs_whole(const RankModel& rank) {
  if (!rank.shards_state) return {};
  return [&rank](int stage, std::size_t parameter) { return rank.is_tied(stage, parameter); };
}

}  // namespace

// Evaluations and separate updates sum no gradients.
StepEndOps::StepEndOps(const Program& program, RankModel& rank, OutputWatch& outputs,
                       const RunOptions& options, const std::vector<AuxiliaryLoss>& auxiliary,
                       StepUpdate& update)
    : rank_(rank),
      trains_(!program.forward_only && !program.update_only),
      ties_(program, trains_ ? rank.parameters : none_, rank.groups),
      reductions_(program, rank.stages.pointers(),
                  trains_ ? options.reduction : GradientReduction()),
      replicas_(program, rank.stages.pointers(), rank.owners, rank.groups,
                trains_ ? rank.data_parallel : DataParallel(), needs_whole(rank)),
      outputs_(outputs),
      requested_(options.requested),
      auxiliary_(auxiliary),
      update_(update) {}

void StepEndOps::begin_step() {
  result_ = {};
  update_.begin_step();
}

void StepEndOps::end_step(std::int64_t step) { update_.end_step(step, result_); }

void StepEndOps::finish_ties() {
  ties_.sum_remaining_ties();
  ties_.clear();
}

Work<void> StepEndOps::unshard(int stage) {
  return trains_ && rank_.sharded ? rank_.sharded->unshard(stage) : Work<void>::done();
}

void StepEndOps::reshard(int stage) {
  if (trains_ && rank_.sharded) rank_.sharded->reshard(stage);
}

Work<void> StepEndOps::reduce_gradients(int stage, std::optional<int> microbatch) {
  if (rank_.groups.num_replicas > 1) return replicas_.reduce(stage, microbatch);
  reductions_.reduce(stage, microbatch);
  return Work<void>::done();
}

Work<void> StepEndOps::reduce_tied(int group) { return ties_.reduce(group); }

Work<void> StepEndOps::reduce_loss() {
  post_layer_barrier();
  const bool asks = trains_ && requested_;
  // Tensor-parallel ranks have equal losses, so only the first one reports them.
  const Executor* const counted = rank_.groups.is_first_share() ? executor_ : nullptr;
  return post_losses(rank_.groups.world, counted, asks ? requested_() : StepRequest::kNone)
      .then([this](GatheredLosses losses) {
        // Keep the gradient norm, which may be computed before the loss.
        StepResult result = result_of(losses, auxiliary_);
        result.grad_norm = result_.grad_norm;
        result.parameter_norms = std::move(result_.parameter_norms);
        result_ = std::move(result);
        losses_ = std::move(losses.of_microbatches);
        update_.loss_known(result_);
      });
}

// If another tensor-parallel rank still waits for this rank inside a layer, its call meets this
// barrier and fails. This rank need not wait, because later instructions wait for all ranks.
void StepEndOps::post_layer_barrier() {
  if (!rank_.groups.shares) return;
  const detail::InstructionPlace place("the end of the step's layers");
  const Work<void> posted = rank_.groups.shares.barrier();
}

Work<void> StepEndOps::gather_outputs() { return outputs_.gather(rank_.groups.pipeline); }

IdleWork StepEndOps::partial_norm(int stage) { return update_.partial_norm(stage, ties_); }
Work<void> StepEndOps::reduce_norm() { return update_.reduce_norm(ties_, result_); }
Work<void> StepEndOps::update(int stage) { return update_.update(stage, ties_, result_); }
void StepEndOps::optimizer_step() { update_.optimizer_step(ties_, result_); }

}  // namespace sluice
