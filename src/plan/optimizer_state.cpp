#include "plan/optimizer_state.h"

namespace sluice {

OptimizerKind kind_of_state(const OptimizerOptions& options) {
  const bool has_momentum = options.kind == OptimizerKind::kSgd && options.momentum > 0;
  return has_momentum ? OptimizerKind::kSgdMomentum : options.kind;
}

namespace detail {

int moments_of(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::kAdamW:
      return 2;
    case OptimizerKind::kSgd:
      return 0;
    case OptimizerKind::kSgdMomentum:
      return 1;
  }
  return 0;
}

}  // namespace detail
}  // namespace sluice
