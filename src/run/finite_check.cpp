#include "run/finite_check.h"

#include <ATen/Functions.h>

namespace sluice {
namespace {

bool is_finite(const at::Tensor& tensor) {
  return !tensor.defined() || !at::isFloatingType(tensor.scalar_type()) ||
         at::isfinite(tensor).all().item<bool>();
}

}  // namespace

std::string non_finite_parameter(Stage& stage) {
  for (const ParameterInfo& parameter : stage.parameters()) {
    if (!is_finite(parameter.tensor)) return parameter.name;
  }
  return {};
}

void FiniteCheck::note(const Action& action, bool in_forward, const std::string& name,
                       const at::Tensor& tensor) {
  if (found_ && (found_->in_forward || !in_forward)) return;
  if (!is_finite(tensor)) found_ = NonFinite{action.microbatch, action.stage, in_forward, name, ""};
}

}  // namespace sluice
