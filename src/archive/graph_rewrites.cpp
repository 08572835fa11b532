#include "archive/graph_rewrites.h"

#include <algorithm>
#include <map>
#include <utility>

#include "archive/graph_nodes.h"

namespace sluice::detail {
namespace {

using InputKind = GraphInput::Kind;

constexpr std::string_view kAttention = "aten.scaled_dot_product_attention.default";
constexpr std::string_view kMathAttention = "aten._scaled_dot_product_attention_math.default";

void rename(GraphArgument& argument, int from, int to) {
  if (argument.kind == GraphArgument::Kind::kValue && argument.value == from) argument.value = to;
  for (GraphArgument& each : argument.list) rename(each, from, to);
}

}  // namespace

void split_parameter_uses(GraphModule& module) {
  std::map<int, std::size_t> parameters;
  for (std::size_t i = 0; i < module.inputs.size(); ++i)
    if (module.inputs[i].kind == InputKind::kParameter) parameters[module.inputs[i].value] = i;
  std::set<int> used;
  for (GraphNode& node : module.nodes) {
    std::set<int> here;
    for (const int value : values_read(node))
      if (parameters.contains(value)) here.insert(value);
    for (const int value : here) {
      if (used.insert(value).second) continue;
      const int own = static_cast<int>(module.values.size());
      module.values.push_back(module.values[static_cast<std::size_t>(value)]);
      GraphInput input = module.inputs[parameters.at(value)];
      input.value = own;
      module.inputs.push_back(std::move(input));
      for (auto& [name, argument] : node.arguments) rename(argument, value, own);
    }
  }
}

std::set<int> free_values(const GraphModule& module, const GraphLayers& layers) {
  std::set<int> free;
  for (const GraphInput& input : module.inputs)
    if (input.kind != InputKind::kParameter) free.insert(input.value);
  for (std::size_t i = 0; i < module.nodes.size(); ++i) {
    if (!layers.is_free[i]) continue;
    for (const GraphNode::Result& result : module.nodes[i].results)
      free.insert(result.values.begin(), result.values.end());
  }
  return free;
}

void use_math_attention_for_layer_masks(GraphModule& module, const GraphLayers& layers) {
  const std::set<int> free = free_values(module, layers);
  for (GraphNode& node : module.nodes) {
    if (node.target != kAttention) continue;
    const GraphArgument* mask = node.argument("attn_mask");
    if (!mask || mask->kind != GraphArgument::Kind::kValue || free.contains(mask->value)) continue;
    node.target = kMathAttention;
    node.results.push_back({.is_list = false, .values = {-1}});  // attention weights
  }
}

std::string_view exported_target(const GraphNode& node) {
  return node.target == kMathAttention ? kAttention : std::string_view(node.target);
}

}  // namespace sluice::detail
