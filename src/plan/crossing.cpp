// A value crosses a cut between layers if it is written before the cut, and read after it before it
// is overwritten.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/nearest_name.h"
#include "plan/crossing.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

// Numbers values by their first write. Throws if one is read before.
std::map<std::string, std::size_t> number_writes(const std::vector<LayerNames>& layers,
                                                 const std::set<std::string>& batch,
                                                 const Names& final_outputs) {
  std::map<std::string, std::size_t> order;
  const auto require = [&](const std::string& name, const std::string& reader) {
    if (batch.count(name) || order.count(name)) return;
    Names known(batch.begin(), batch.end());
    for (const auto& [written, position] : order) known.push_back(written);
    throw Error(ErrorKind::kUsage,
                {.what = formatted("{} reads '{}', which no earlier layer writes", reader, name),
                 .where = "values of the model",
                 .remedy = suggest_name(name, known)});
  };
  for (const LayerNames& layer : layers) {
    for (const std::string& name : layer.reads) require(name, "layer '" + layer.name + "'");
    for (const std::string& name : layer.writes) {
      if (batch.count(name)) {
        throw Error(ErrorKind::kUsage, {.what = "layer '" + layer.name + "' writes '" + name +
                                                "', which is an input of the batch",
                                        .where = "values of the model",
                                        .remedy = "give the value another name"});
      }
      order.emplace(name, order.size());
    }
  }
  for (const std::string& name : final_outputs) require(name, "the end of the model");
  return order;
}

}  // namespace

std::vector<Names> values_crossing_cuts(const std::vector<LayerNames>& layers,
                                        const std::vector<int>& cuts, const Names& batch_inputs,
                                        const Names& final_outputs) {
  const std::set<std::string> batch(batch_inputs.begin(), batch_inputs.end());
  const auto order = number_writes(layers, batch, final_outputs);

  std::vector<std::set<std::string>> live(layers.size() + 1);
  for (const std::string& name : final_outputs) {
    if (!batch.count(name)) live.back().insert(name);
  }
  for (std::size_t i = layers.size(); i-- > 0;) {
    live[i] = live[i + 1];
    for (const std::string& name : layers[i].writes) live[i].erase(name);
    for (const std::string& name : layers[i].reads) {
      if (!batch.count(name)) live[i].insert(name);
    }
  }

  std::vector<Names> crossing;
  for (const int cut : cuts) {
    if (cut < 0 || static_cast<std::size_t>(cut) > layers.size()) {
      throw Error(ErrorKind::kUsage,
                  {.what = formatted("cannot cut before layer {} of a model that has {} layers",
                                     cut, layers.size())});
    }
    Names names(live[cut].begin(), live[cut].end());
    std::sort(names.begin(), names.end(),
              [&](const auto& a, const auto& b) { return order.at(a) < order.at(b); });
    crossing.push_back(std::move(names));
  }
  return crossing;
}

}  // namespace sluice
