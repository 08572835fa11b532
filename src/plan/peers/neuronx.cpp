// NeuronX Distributed names a cut after the layer before it. The last partitions take the
// remainder: 10 layers make 2 2 3 3, cut after layers 1, 3, 6.
#include "plan/partition/shares.h"

#include "sluice/parts/peers.h"

namespace sluice {

std::vector<std::string> create_partitions(int num_partitions,
                                           const std::vector<std::string>& layer_names) {
  detail::require_count("the number of partitions", num_partitions, 1);
  detail::require_count("the number of layers", static_cast<std::int64_t>(layer_names.size()), 0);
  const int num_layers = static_cast<int>(layer_names.size());
  detail::require_layer_each(num_partitions, num_layers);
  const std::vector<int> starts =
      detail::first_layers(detail::even_shares(num_layers, num_partitions, Remainder::kLast));
  std::vector<std::string> cuts;
  for (std::size_t s = 1; s < starts.size(); ++s) cuts.push_back(layer_names[starts[s] - 1]);
  return cuts;
}

}  // namespace sluice
