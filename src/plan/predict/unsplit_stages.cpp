#include "sluice/simulate.h"

namespace sluice {

Costs charge_unsplit_stages(Costs costs, int num_stages, const std::vector<int>& stages) {
  if (costs.per_stage.empty())
    costs.per_stage.assign(static_cast<std::size_t>(num_stages), costs.uniform);
  for (int stage : stages) {
    StageCosts& cost = costs.per_stage.at(stage);
    cost.backward_input = cost.backward;
    cost.backward_weight = 0;
  }
  return costs;
}

}  // namespace sluice
