// Sends a step's losses and each rank's request to every rank.
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
  std::vector<MicrobatchLoss> of_microbatches;
  std::vector<MicrobatchAuxiliary> of_auxiliary;  // by stage, microbatch and layer
  StepRequest request = StepRequest::kNone;       // strongest request of all ranks

  double sum() const;
  std::int64_t count() const;
  // Returns the mean per name, weighted by counts, in layer order.
  std::vector<std::pair<std::string, double>> auxiliary() const;
};

// Collective over all ranks. executor: null if this rank has no losses.
Work<GatheredLosses> post_losses(const Group& world, const Executor* executor, StepRequest request);

StepResult result_of(const GatheredLosses& losses, const std::vector<AuxiliaryLoss>& auxiliary);

}  // namespace sluice
