// NeuronX Distributed's split: cuts after named layers, or equal stages where the last ones take
// the remainder.
#include "plan/partition/convention.h"

#include "sluice/parts/peers.h"

namespace sluice::detail {

Split neuronx_split(const ModelSpec& model, const PartitionOptions& options,
                    const ScheduleInfo* schedule) {
  const LayerNames layers = hf_names(model);
  if (!options.cuts.empty()) return split_after(layers, options.cuts);
  std::vector<std::string> decoders;
  decoders.reserve(static_cast<std::size_t>(layers.num_decoders));
  for (int k = 0; k < layers.num_decoders; ++k) {
    decoders.push_back(layers.names[layers.position(k)].front());
  }
  return split_after(
      layers, create_partitions(counted_stages(options, schedule, layers.num_decoders), decoders));
}

}  // namespace sluice::detail
