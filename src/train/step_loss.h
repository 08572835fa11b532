// Gives every rank the result of a step: its loss, its counted tokens, and requests made of the
// run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/executor.h"
#include "sluice/model.h"
#include "sluice/parts/group.h"
#include "sluice/parts/run_options.h"

namespace sluice {

struct GatheredLosses {
  std::vector<MicrobatchLoss> of_microbatches;    // in microbatch order
  std::vector<MicrobatchAuxiliary> of_auxiliary;  // by stage, microbatch and layer
  StepRequest request = StepRequest::kNone;       // strongest request of all ranks

  double sum() const;
  std::int64_t count() const;
  // Means weighted by the counts of the microbatches. Each name appears once, in layer order.
  std::vector<std::pair<std::string, double>> auxiliary() const;
};

// Collective over `world`, which has all ranks. executor: has this rank's losses; null: none.
Work<GatheredLosses> post_losses(const Group& world, const Executor* executor, StepRequest request);

// Computes loss, count and means of a step. auxiliary: scales of the auxiliary losses.
StepResult result_of(const GatheredLosses& losses, const std::vector<AuxiliaryLoss>& auxiliary);

}  // namespace sluice
