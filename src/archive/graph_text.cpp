#include <algorithm>

#include "archive/exported_graph.h"
#include "base/format.h"
#include "base/text.h"

namespace sluice::detail {
namespace {

constexpr std::size_t kMostShown = 8;

std::string shown_argument(const GraphArgument& argument, const GraphModule& module);

std::string shown_list(const std::vector<GraphArgument>& list, const GraphModule& module) {
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(list.size(), kMostShown); ++i)
    text += (i == 0 ? "" : ", ") + shown_argument(list[i], module);
  return text + (list.size() > kMostShown ? ", ..]" : "]");
}

std::string shown_argument(const GraphArgument& argument, const GraphModule& module) {
  using Kind = GraphArgument::Kind;
  switch (argument.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kValue:
      return module.values[static_cast<std::size_t>(argument.value)].name;
    case Kind::kInt:
      return formatted("{}", argument.integer);
    case Kind::kFloat:
      return shortest(argument.real);
    case Kind::kComplex:
      return formatted("{} + {}j", shortest(argument.real), shortest(argument.imaginary));
    case Kind::kBool:
      return argument.integer ? "True" : "False";
    case Kind::kString:
      return "'" + argument.text + "'";
    case Kind::kList:
      return shown_list(argument.list, module);
    default:
      return argument.text;
  }
}

bool names_a_value(const GraphArgument& argument) {
  return argument.kind == GraphArgument::Kind::kValue ||
         (argument.kind == GraphArgument::Kind::kList &&
          std::ranges::any_of(argument.list, names_a_value));
}

}  // namespace

std::string place_of(const GraphNode& node, const GraphModule& module) {
  std::string place = "a node";
  for (const GraphNode::Result& result : node.results) {
    if (result.values.empty() || result.values.front() < 0) continue;
    place = "node '" + module.values[static_cast<std::size_t>(result.values.front())].name + "'";
    break;
  }
  if (!node.module_path().empty()) place += " of module '" + node.module_path() + "'";
  return node.source.empty() ? place : place + " (" + node.source + ")";
}

std::string to_text(const GraphNode& node, const GraphModule& module) {
  constexpr std::string_view kDefault = ".default";
  std::string text = node.target;
  if (text.ends_with(kDefault)) text.erase(text.size() - kDefault.size());
  text += "(";
  for (std::size_t i = 0; i < std::min(node.arguments.size(), kMostShown); ++i) {
    const auto& [name, argument] = node.arguments[i];
    if (i > 0) text += ", ";
    if (!name.empty() && !names_a_value(argument)) text += name + "=";
    text += shown_argument(argument, module);
  }
  text += node.arguments.size() > kMostShown ? ", ..)" : ")";
  std::string results;
  std::size_t num_shown = 0;
  for (const GraphNode::Result& result : node.results) {
    for (const int value : result.values) {
      if (value < 0 || ++num_shown > kMostShown) continue;
      results +=
          (results.empty() ? "" : ", ") + module.values[static_cast<std::size_t>(value)].name;
    }
  }
  if (!results.empty()) text += " -> " + results + (num_shown > kMostShown ? ", .." : "");
  if (!node.modules.empty()) text += " of " + node.module_path();
  return text;
}

}  // namespace sluice::detail
