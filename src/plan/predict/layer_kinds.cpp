#include "plan/predict/layer_times.h"

#include <map>

#include "base/format.h"

namespace sluice::detail {
namespace {

std::string list_text(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += std::to_string(size) + ",";
  return text;
}

}  // namespace

// Names parameters without the layer's prefix, so that equal layers match.
std::string kind_text(const LayerInfo& layer) {
  std::string text = formatted("{} {}", static_cast<int>(layer.role), layer.class_name);
  for (const std::string& name : layer.reads) text += " <" + name;
  for (const ValueSpec& value : layer.writes)
    text += " >" + value.name + ":" + value.dtype + list_text(value.sizes);
  for (const ParameterSpec& parameter : layer.parameters) {
    const std::string& name = parameter.name;
    const bool is_inside = name.starts_with(layer.name + ".");
    text += " " + (is_inside ? name.substr(layer.name.size()) : name) + ":" + parameter.dtype +
            list_text(parameter.shape) + (parameter.trainable ? "" : "frozen");
  }
  return text;
}

std::vector<LayerGroup> layer_groups(const ModelSpec& model) {
  const auto [first, last] = model.block_range();
  const int num_layers = static_cast<int>(model.layers.size());
  std::vector<LayerGroup> groups;
  std::multimap<std::string, int> of_kind;
  const auto add = [&](int begin, int end) {
    if (begin == end) return;
    LayerGroup& group = groups.emplace_back();
    for (int i = begin; i < end; ++i) group.layers.push_back(i);
    group.measured_as = static_cast<int>(groups.size()) - 1;
    if (end != begin + 1) return;
    const std::string kind = kind_text(model.layers[begin]);
    const auto [from, to] = of_kind.equal_range(kind);
    for (auto each = from; each != to; ++each) {
      const int other = groups[each->second].layers.front();
      if (model.layers[begin].cost == model.layers[other].cost) group.measured_as = each->second;
    }
    if (group.measured_as == static_cast<int>(groups.size()) - 1)
      of_kind.emplace(kind, group.measured_as);
  };
  add(0, first);
  for (int i = first; i < last; ++i) add(i, i + 1);
  add(last, num_layers);
  return groups;
}

}  // namespace sluice::detail
