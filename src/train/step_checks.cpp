#include "train/step_checks.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/text.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"

namespace sluice {

Transport& require_fits(const Plan& plan, Transport& transport) {
  if (transport.size() == plan.program.num_ranks()) return transport;
  throw Error(ErrorKind::kUsage,
              {.what = "the plan has " + counted(plan.program.num_ranks(), "rank") +
                       ", the transport " + std::to_string(transport.size()),
               .where = "Pipeline",
               .remedy = "make as many endpoints as the plan has ranks"});
}

void require_counted(const StepBatch& batch) {
  if (std::any_of(batch.counts.begin(), batch.counts.end(), [](auto count) { return count > 0; }))
    return;
  throw Error(ErrorKind::kInput, {.what = "nothing is counted in the step's batch",
                                  .where = "step " + std::to_string(batch.step),
                                  .remedy = "give every step something that Model::count counts"});
}

void require_same_parameters(const RankStages& stages) {
  for (const auto& stage : stages.stages()) {
    std::set<const void*> of_modules;
    for (const auto& module : stage->chunk().modules()) {
      for (const at::Tensor& parameter : module->parameters(/*recurse=*/false))
        of_modules.insert(parameter.unsafeGetTensorImpl());
    }
    for (const ParameterInfo& parameter : stage->parameters()) {
      if (of_modules.contains(parameter.tensor.unsafeGetTensorImpl())) continue;
      throw Error(ErrorKind::kUsage,
                  {.what = "parameter '" + parameter.name + "' was replaced by another tensor",
                   .where = "stage " + std::to_string(stage->index()),
                   .remedy = "write into it (copy_) or make the pipeline anew"});
    }
  }
}

void require_divisor(const char* call, const std::optional<GradientScale>& scale) {
  if (!scale || scale->kind != GradientScale::kDivisor) return;
  if (scale->divisor > 0 && std::isfinite(scale->divisor)) return;
  throw Error(ErrorKind::kUsage, {.what = "a divisor of " + std::to_string(scale->divisor),
                                  .where = call,
                                  .remedy = "give a number above 0"});
}

}  // namespace sluice
