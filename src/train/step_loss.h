// The report of a step that every rank gets: its loss, its counted tokens, and what somebody asked
// of the run.
//
// Does not own: the losses of microbatches (Executor).
// Thread-safety: one rank's thread.
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

// The losses of all ranks.
struct GatheredLosses {
  std::vector<MicrobatchLoss> of_microbatches;    // in their order
  std::vector<MicrobatchAuxiliary> of_auxiliary;  // by stage, in layer order, by microbatch
  StepRequest request = StepRequest::kNone;       // the strongest of all ranks

  double sum() const;
  std::int64_t count() const;
  // Means, microbatches weighing by what they count; each name once, in layer order.
  std::vector<std::pair<std::string, double>> auxiliary() const;
};

// Collective over `world`, all ranks. executor: the losses of its step; null: this rank has none.
Work<GatheredLosses> post_losses(const Group& world, const Executor* executor, StepRequest request);

// The result of the losses of a step: loss, count, means. auxiliary: of these their scales.
StepResult result_of(const GatheredLosses& losses, const std::vector<AuxiliaryLoss>& auxiliary);

}  // namespace sluice
