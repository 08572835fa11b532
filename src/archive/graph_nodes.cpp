#include "archive/graph_nodes.h"

#include <set>

namespace sluice::detail {
namespace {

void append_values(const GraphArgument& argument, std::vector<int>& to) {
  if (argument.kind == GraphArgument::Kind::kValue) to.push_back(argument.value);
  for (const GraphArgument& each : argument.list) append_values(each, to);
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

bool writes_in_place(const GraphNode& node) {
  if (!node.target.starts_with("aten.")) return false;
  const std::string_view name = operator_of(node);
  return name.ends_with('_') && !name.ends_with("__");
}

bool draws_random_numbers(const GraphNode& node) {
  static const std::set<std::string_view> random = {
      "alpha_dropout",   "bernoulli",   "dropout",        "feature_alpha_dropout",
      "feature_dropout", "multinomial", "native_dropout", "normal",
      "poisson",         "rand",        "rand_like",      "randint",
      "randint_like",    "randn",       "randn_like",     "randperm",
      "rrelu",           "bernoulli_",  "dropout_",       "exponential_",
      "normal_",         "random_",     "uniform_",       "exponential",
      "uniform"};
  const std::string_view name = operator_of(node);
  if (name == "scaled_dot_product_attention") {
    const GraphArgument* p = node.argument("dropout_p");
    return p && p->kind == GraphArgument::Kind::kFloat && p->real > 0;
  }
  return random.contains(name);
}

}  // namespace sluice::detail
