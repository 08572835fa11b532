// A value needs a gradient if it depends on a trained parameter and an output depends on it. A
// stage has a backward if such a value leaves it. It computes input gradients if such a value
// enters it.
#include <algorithm>
#include <map>
#include <set>

#include "sluice/partition.h"

#include "plan/partition/stage_backwards.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;
using NameSet = std::set<std::string>;

struct LayerValues {
  Names reads, writes;
};

// A layer that declares no values reads and writes one, the hidden state.
LayerValues values_of(const LayerInfo& layer) {
  if (layer.reads.empty() && layer.writes.empty()) return {{"hidden"}, {"hidden"}};
  LayerValues values{layer.reads, {}};
  for (const ValueSpec& value : layer.writes) values.writes.push_back(value.name);
  return values;
}

NameSet unread_values(const std::vector<LayerValues>& layers) {
  NameSet unread;
  for (const LayerValues& layer : layers) {
    for (const std::string& name : layer.reads) unread.erase(name);
    unread.insert(layer.writes.begin(), layer.writes.end());
  }
  return unread;
}

// Returns the values that depend on a trained parameter, before each layer and at the end.
std::vector<NameSet> trained_values(const std::vector<LayerValues>& layers,
                                    const std::vector<bool>& layer_trains) {
  std::vector<NameSet> trained(1);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    NameSet after = trained.back();
    const bool makes_trained =
        layer_trains[i] ||
        std::any_of(layers[i].reads.begin(), layers[i].reads.end(),
                    [&](const std::string& name) { return after.contains(name); });
    for (const std::string& name : layers[i].writes) {
      if (makes_trained)
        after.insert(name);
      else
        after.erase(name);
    }
    trained.push_back(std::move(after));
  }
  return trained;
}

bool meet(const NameSet& a, const NameSet& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& name) { return b.contains(name); });
}

// Returns whether a value that is used later depends on a trained parameter, before each layer and
// at the end.
std::vector<bool> gradient_flows(const std::vector<LayerValues>& layers,
                                 const std::vector<bool>& layer_trains, const Names& outputs) {
  const std::vector<NameSet> trained = trained_values(layers, layer_trains);
  NameSet used = outputs.empty() ? unread_values(layers) : NameSet(outputs.begin(), outputs.end());
  std::vector<bool> flows(layers.size() + 1);
  flows.back() = meet(used, trained.back());
  for (std::size_t i = layers.size(); i-- > 0;) {
    for (const std::string& name : layers[i].writes) used.erase(name);
    used.insert(layers[i].reads.begin(), layers[i].reads.end());
    flows[i] = meet(used, trained[i]);
  }
  return flows;
}

}  // namespace

std::vector<StageBackward> stage_backwards(const ModelSpec& model, const Partition& partition,
                                           const std::vector<bool>& layer_trains,
                                           const Names& outputs) {
  std::vector<LayerValues> layers;
  for (const LayerInfo& layer : model.layers) layers.push_back(values_of(layer));
  const std::vector<bool> flows = gradient_flows(layers, layer_trains, outputs);

  std::vector<StageBackward> backwards(partition.stages.size(), StageBackward::kNone);
  bool arrives = flows.back();
  for (std::size_t s = partition.stages.size(); s-- > 0 && arrives;) {
    const std::vector<int>& own = partition.stages[s].layers;
    const bool trains =
        std::any_of(own.begin(), own.end(), [&](int layer) { return layer_trains[layer]; });
    arrives = s > 0 && flows[own.front()];
    // The first stage's backward counts as full, although its input needs no gradient.
    if (trains)
      backwards[s] = arrives || s == 0 ? StageBackward::kFull : StageBackward::kWeights;
    else if (arrives)
      backwards[s] = StageBackward::kInput;
  }
  return backwards;
}

}  // namespace sluice
