#include "archive/allowed_nodes.h"

#include <algorithm>
#include <string_view>

#include "base/format.h"
#include "family/aten_table.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

bool is_given(std::string_view target, const std::vector<std::string>& given) {
  const std::size_t dot = target.find('.'), last = target.rfind('.');
  if (dot == std::string_view::npos || dot == last) return false;
  const std::string name = std::string(target.substr(0, dot)) +
                           "::" + std::string(target.substr(dot + 1, last - dot - 1));
  const std::string_view overload = target.substr(last + 1);
  return std::ranges::any_of(given, [&](const std::string& each) {
    return (each == name && overload == "default") || each == name + "." + std::string(overload);
  });
}

bool has_unsupported_layout(const GraphArgument& argument) {
  return argument.kind == GraphArgument::Kind::kLayout && argument.text != "strided";
}

// as_strided() must have the strides from export. Explicit storage offsets are rejected, because
// offsets at run time may differ.
std::string strides_error(const GraphNode& node, const GraphModule& module) {
  if (node.target != "aten.as_strided.default") return {};
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const auto& [name, argument] = node.arguments[i];
    const bool is_offset = name == "storage_offset" || (name.empty() && i == 3);
    if (is_offset && argument.kind != GraphArgument::Kind::kNone)
      return formatted("'{}' is given a storage offset", node.target);
    if (argument.kind != GraphArgument::Kind::kValue) continue;
    const GraphValue& value = module.values[static_cast<std::size_t>(argument.value)];
    if (value.strides.size() != value.sizes.size())
      return formatted("'{}' reads a tensor whose strides the archive does not say", node.target);
  }
  return {};
}

void require_allowed(const ExportedGraph& graph, const GraphModule& module,
                     const std::vector<std::string>& given) {
  for (const GraphNode& node : module.nodes) {
    const std::string why = refusal_of(node, module, given);
    if (why.empty()) continue;
    throw Error(
        ErrorKind::kInput,
        {.what = why,
         .where = graph.path + ", " + place_of(node, module),
         .remedy = "export the model without it; `sluice graph inspect` lists refused operators"});
  }
}

}  // namespace

std::string refusal_of(const GraphNode& node, const GraphModule& module,
                       const std::vector<std::string>& given) {
  const std::string& target = node.target;
  if (is_given(target, given) || target.starts_with("sluice.") || is_number_function(target))
    return {};
  if (!find_aten_row(target))
    return formatted("'{}' is not an operator that an exported graph may run", target);
  if (std::string why = strides_error(node, module); !why.empty()) return why;
  for (const auto& [name, argument] : node.arguments) {
    if (has_unsupported_layout(argument))
      return formatted("'{}' makes a tensor of the layout '{}', not strided", target,
                       argument.text);
    if (name == "pin_memory" && argument.kind == GraphArgument::Kind::kBool && argument.integer)
      return formatted("'{}' asks for pinned memory", target);
  }
  return {};
}

void require_allowed_nodes(const ExportedGraph& graph, const std::vector<std::string>& given) {
  require_allowed(graph, graph.training, given);
  if (graph.evaluation) require_allowed(graph, *graph.evaluation, given);
}

}  // namespace sluice::detail
