// The split by costs: sluice's and the peers' names, cuts wherever the model's chain of layers
// allows one: before any block, and behind the last.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "plan/partition/convention.h"
#include "plan/partition/exact_split.h"
#include "plan/partition/shares.h"

namespace sluice::detail {
namespace {

void require_costs(const std::vector<double>& costs, const LayerNames& layers) {
  if (static_cast<int>(costs.size()) != layers.num_layers) {
    refuse("`layer_costs` has " + counted(static_cast<std::int64_t>(costs.size()), "number") +
               " for " + counted(layers.num_layers, "layer"),
           "give one for every layer of the model, in its order");
  }
  const bool all_fit = std::all_of(costs.begin(), costs.end(),
                                   [](double cost) { return std::isfinite(cost) && cost >= 0; });
  if (!all_fit) refuse("a layer cost is negative or not finite", "give numbers of at least 0");
}

}  // namespace

Split split_by_costs(const ModelSpec& model, const ConventionRules& convention,
                     const PartitionOptions& options, const StageMap& stage_map,
                     const std::function<Partition(Split)>& partition_of) {
  const LayerNames layers = convention.names(model, options);
  require_costs(options.layer_costs, layers);
  const int num_stages = stage_map.num_stages();
  if (convention.layer_each) require_layer_each(num_stages, layers.num_decoders);
  SplitProblem problem;
  problem.costs = options.layer_costs;
  problem.first_cut = std::max(1, layers.first_decoder);
  problem.last_cut = std::min(layers.num_layers - 1, layers.position(layers.num_decoders));
  problem.stage_to_rank = stage_map.ranks();
  const int places = std::max(0, problem.last_cut - problem.first_cut + 1);
  if (num_stages - 1 > places) require_layer_each(num_stages, places + 1);
  const auto accepts = [&](const std::vector<int>& starts) {
    return options.accepts(partition_of(split_at(layers, starts)));
  };
  ExactSplit found = options.accepts ? exact_split(problem, accepts) : exact_split(problem);
  if (found.starts.empty()) {
    refuse("no split into " + counted(num_stages, "stage") + " was accepted",
           "use more ranks or another number of stages");
  }
  return split_at(layers, std::move(found.starts));
}

}  // namespace sluice::detail
