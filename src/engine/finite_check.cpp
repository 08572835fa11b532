#include "engine/finite_check.h"

#include <ATen/Functions.h>

#include "engine/executor.h"

namespace sluice {
namespace {

bool is_finite(const at::Tensor& tensor) {
  return !tensor.defined() || !at::isFloatingType(tensor.scalar_type()) ||
         at::isfinite(tensor).all().item<bool>();
}

std::string non_finite_parameter(Stage& stage) {
  for (const ParameterInfo& parameter : stage.parameters()) {
    if (!is_finite(parameter.tensor)) return parameter.name;
  }
  return {};
}

}  // namespace

void FiniteCheck::produced(const Action& action, const Values& outputs,
                           std::vector<at::Tensor>& handed_on) {
  if (action.kind != ActionKind::kForward) return;
  for (const auto& [name, tensor] : outputs)
    note(action, /*in_forward=*/true, name, tensor, tensor);
  if (flow_.is_last(action.stage, action.microbatch))
    note(action, /*in_forward=*/true, "loss", handed_on.front(), handed_on.front());
}

void FiniteCheck::end(int /*index*/, const Action& action) {
  const Action done = action.kind == ActionKind::kOverlap ? action.overlap_backward() : action;
  if (!is_compute(done.kind) || done.kind == ActionKind::kForward) return;
  Stage& stage = *stages_.at(done.stage);
  for (std::size_t i = 0; i < stage.parameters().size(); ++i)
    note(done, /*in_forward=*/false, stage.parameters()[i].name, stage.gradient(i),
         stage.parameters()[i].tensor);
}

void FiniteCheck::note(const Action& action, bool in_forward, const std::string& name,
                       const at::Tensor& tensor, const at::Tensor& computed_in) {
  if (found_ && (found_->in_forward || !in_forward)) return;
  if (is_finite(tensor)) return;
  found_ =
      NonFinite{action.microbatch, action.stage, in_forward, name, "", computed_in.scalar_type()};
  // Check parameters now, because zero3 parameters have memory only during their stage's compute.
  if (in_forward) found_->parameter = non_finite_parameter(*stages_.at(action.stage));
}

}  // namespace sluice
