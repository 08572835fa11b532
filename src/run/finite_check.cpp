#include "run/finite_check.h"

#include <ATen/Functions.h>

namespace sluice {

void FiniteCheck::note(const Action& action, bool in_forward, const std::string& name, const at::Tensor& tensor) {
  if (found_ && (found_->in_forward || !in_forward)) return;
  if (!tensor.defined() || !at::isFloatingType(tensor.scalar_type())) return;
  if (at::isfinite(tensor).all().item<bool>()) return;
  found_ = NonFinite{action.microbatch, action.stage, in_forward, name};
}

}  // namespace sluice
