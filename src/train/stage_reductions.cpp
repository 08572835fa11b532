#include "train/stage_reductions.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace sluice {

StageReductions::StageReductions(const Program& program, const std::vector<Stage*>& stages,
                                 GradientReduction reduction)
    : program_(program), reduction_(std::move(reduction)) {
  for (Stage* stage : stages) stages_[stage->index()] = stage;
}

void StageReductions::reduce(int index, std::optional<int> microbatch) {
  if (!reduction_.reduce) return;  // no hook is set for the schedule's REDUCE_GRAD
  const at::NoGradGuard no_grad;
  Stage& stage = *stages_.at(index);
  const std::size_t num_parameters = stage.parameters().size();
  std::vector<std::pair<std::string, at::Tensor>> gradients;
  for (std::size_t i = 0; i < num_parameters; ++i) {
    if (stage.gradient(i).defined())
      gradients.emplace_back(stage.parameters()[i].name, stage.gradient(i));
  }
  reduction_.reduce(index, microbatch, gradients);
  if (!microbatch) return;

  Reduced& reduced = reduced_[index];
  reduced.sums.resize(num_parameters);
  for (std::size_t i = 0; i < num_parameters; ++i) {
    at::Tensor& gradient = stage.gradient(i);
    if (!gradient.defined()) continue;
    if (reduced.sums[i].defined()) {
      reduced.sums[i].add_(gradient);
    } else {
      reduced.sums[i] = gradient;
    }
    gradient.reset();
  }
  if (++reduced.num_microbatches < program_.flow.num_passing(index, program_.num_microbatches))
    return;
  for (std::size_t i = 0; i < num_parameters; ++i) {
    if (reduced.sums[i].defined()) stage.gradient(i) = std::move(reduced.sums[i]);
  }
  reduced_.erase(index);
}

}  // namespace sluice
