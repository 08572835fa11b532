// Effective layers are decoder layers plus the weights of embedding and head. 32 layers with
// weights 1 and 1 on four stages make 34 = 9 + 9 + 8 + 8. Without the weights:
//
//   | E 0..7 | 8..16 | 17..24 | 25..31 N H |      layers.8, layers.17, layers.25
//
#include "plan/partition/torchtitan_rules.h"

#include <algorithm>

#include "base/format.h"

namespace sluice::detail {

int rigid_num_stages(StagesNeed need, int pp_degree, int num_layers, int layers_per_stage,
                     int input_weight, int output_weight) {
  require_count("the number of ranks", pp_degree, 1);
  require_count("the number of layers", num_layers, 0);
  require_count("`layers_per_stage`", layers_per_stage, 1);
  require_count("the weight of the first stage", input_weight, 0);
  require_count("the weight of the last stage", output_weight, 0);
  const int effective = num_layers + input_weight + output_weight;
  const std::string total = formatted("{} effective layers ({} and weights {}, {})", effective,
                                      num_layers, input_weight, output_weight);
  if (effective % pp_degree != 0) {
    refuse(total + " are not a multiple of " + counted(pp_degree, "rank"),
           "choose weights that make them a multiple, or leave `layers_per_stage` out");
  }
  const int per_rank = effective / pp_degree;
  if (per_rank % layers_per_stage != 0) {
    refuse(formatted("{} are {} a rank, which is not a multiple of `layers_per_stage` {}", total,
                     per_rank, layers_per_stage),
           formatted("give a divisor of {}, or leave `layers_per_stage` out", per_rank));
  }
  const int stages_per_rank = per_rank / layers_per_stage;
  if (!fits(need, stages_per_rank)) {
    refuse(formatted("{} with `layers_per_stage` {} make {}, {} a rank, but {}", total,
                     layers_per_stage, counted(stages_per_rank * pp_degree, "stage"),
                     stages_per_rank, need_text(need)),
           need == StagesNeed::kOne && per_rank > 0
               ? "give `layers_per_stage` " + std::to_string(per_rank)
               : "give a smaller `layers_per_stage`");
  }
  return stages_per_rank * pp_degree;
}

std::vector<int> shares_2024(int num_layers, int num_stages) {
  require_count("the number of layers", num_layers, 0);
  require_count("the number of stages", num_stages, 1);
  require_layer_each(num_stages, num_layers);
  std::vector<int> shares(static_cast<std::size_t>(num_stages), num_layers / num_stages);
  // The remainder goes to the stages after the first.
  std::for_each_n(shares.begin() + (num_stages > 1 ? 1 : 0), num_layers % num_stages,
                  [](int& share) { ++share; });
  return shares;
}

std::vector<std::string> titan_split_points(const std::vector<int>& starts) {
  std::vector<std::string> points;
  for (std::size_t s = 1; s < starts.size(); ++s) {
    points.push_back("layers." + std::to_string(starts[s]));
  }
  return points;
}

ModuleNames titan_modules(const std::vector<int>& starts, int num_layers, const std::string& head) {
  ModuleNames stages(starts.size());
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const bool last = s + 1 == starts.size();
    if (s == 0) stages[s].push_back("tok_embeddings");
    for (int layer = starts[s]; layer < (last ? num_layers : starts[s + 1]); ++layer) {
      stages[s].push_back("layers." + std::to_string(layer));
    }
    if (last) stages[s].insert(stages[s].end(), {"norm", head});
  }
  return stages;
}

}  // namespace sluice::detail
