#include "archive/graph_nodes.h"

#include <algorithm>

#include "family/aten_table.h"

namespace sluice::detail {
namespace {

void append_values(const GraphArgument& argument, std::vector<int>& to) {
  if (argument.kind == GraphArgument::Kind::kValue) to.push_back(argument.value);
  for (const GraphArgument& each : argument.list) append_values(each, to);
}

bool is_false(const GraphArgument* argument) {
  return argument && argument->kind == GraphArgument::Kind::kBool && argument->integer == 0;
}

}  // namespace

std::string_view operator_of(const GraphNode& node) {
  std::string_view name = node.target;
  if (!name.starts_with("aten.")) return name;
  name.remove_prefix(5);
  return name.substr(0, name.find('.'));
}

std::vector<int> values_of(const GraphArgument& argument) {
  std::vector<int> values;
  append_values(argument, values);
  return values;
}

std::vector<int> values_read(const GraphNode& node) {
  std::vector<int> values;
  for (const auto& [name, argument] : node.arguments) append_values(argument, values);
  return values;
}

std::vector<int> values_written(const GraphNode& node) {
  std::vector<int> values;
  for (const GraphNode::Result& result : node.results)
    for (const int value : result.values)
      if (value >= 0) values.push_back(value);
  return values;
}

std::vector<int> values_changed(const GraphNode& node) {
  std::vector<int> values;
  const AtenRow* row = find_aten_row(node.target);
  if (!row || row->written.empty()) return values;
  const bool is_evaluation =
      is_false(node.argument("training")) || is_false(node.argument("use_input_stats"));
  for (const auto& [name, argument] : node.arguments) {
    // An unnamed argument may be any parameter of the schema.
    if (!name.empty() && !contains_name(row->written, name)) continue;
    if (is_evaluation && (name == "running_mean" || name == "running_var")) continue;
    append_values(argument, values);
  }
  return values;
}

std::vector<int> values_shared(const GraphNode& node, const GraphModule& module) {
  std::vector<int> values;
  const AtenRow* row = find_aten_row(node.target);
  if (!row || row->shared.empty()) return values;
  for (const auto& [name, argument] : node.arguments)
    if (name.empty() || contains_name(row->shared, name)) append_values(argument, values);
  const std::string_view op = operator_of(node);
  if (op != "to" && op != "type_as") return values;
  // A cast to another dtype copies, so its result shares no storage.
  const auto dtype_of = [&](int value) -> const std::string& {
    return module.values[static_cast<std::size_t>(value)].dtype;
  };
  const std::vector<int> results = values_written(node);
  std::erase_if(values, [&](int value) {
    return std::ranges::none_of(results,
                                [&](int result) { return dtype_of(result) == dtype_of(value); });
  });
  return values;
}

bool draws_random_numbers(const GraphNode& node) {
  if (operator_of(node) == "scaled_dot_product_attention") {
    const GraphArgument* p = node.argument("dropout_p");
    return p && p->kind == GraphArgument::Kind::kFloat && p->real > 0;
  }
  const AtenRow* row = find_aten_row(node.target);
  return row && row->draws;
}

}  // namespace sluice::detail
