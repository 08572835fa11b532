// Handwritten exported graphs with parameters, modules and results, in the form that
// graph_of_model() takes.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "archive/graph_model.h"
#include "support/graph_builder.h"

namespace sluice::test {

using Modules = std::vector<std::pair<std::string, std::string>>;  // key and class, outermost first

class WrittenGraph : public GraphBuilder {
 public:
  WrittenGraph() {
    graph.path = "model.pt2";
    graph.facts.dtype = "float32";
    graph.facts.sizes = {{"rows", "s0", 2}, {"length", "s1", 16}};
    module.ranges = {{"s0", 1, INT64_MAX}, {"s1", 2, 64}};
  }

  void parameter(const std::string& name, const std::vector<std::int64_t>& sizes) {
    std::vector<std::string> texts;
    for (const std::int64_t size : sizes) texts.push_back(std::to_string(size));
    input(GraphInput::Kind::kParameter, name, texts);
    graph.tensors.push_back(
        {.name = name, .record = "", .dtype = "float32", .sizes = sizes, .strides = {}});
  }
  void buffer(const std::string& name, const std::vector<std::string>& sizes) {
    input(GraphInput::Kind::kBuffer, name, sizes);
  }
  void result(const std::string& name, const std::string& value) {
    GraphArgument argument;
    argument.kind = GraphArgument::Kind::kValue;
    argument.value = find(value);
    module.outputs.push_back({.name = name, .value = argument});
  }

  GraphNode& add(const Modules& modules, const std::string& target, const Arguments& arguments,
                 const std::string& written,
                 const std::vector<std::string>& sizes = {"s0", "s1", "4"},
                 const std::string& dtype = "float32") {
    if (find(written) < 0) tensor(written, sizes, dtype);
    GraphNode& added = node(target, arguments, {written});
    for (const auto& [key, class_name] : modules)
      added.modules.push_back(
          {.key = key, .path = key.substr(0, key.find('@')), .class_name = class_name});
    return added;
  }
  GraphNode& linear(const Modules& modules, const std::string& x, const std::string& weight,
                    const std::string& written,
                    const std::vector<std::string>& sizes = {"s0", "s1", "4"}) {
    return add(modules, "aten.linear.default", {{"input", Value{x}}, {"weight", Value{weight}}},
               written, sizes);
  }

  std::shared_ptr<const detail::GraphOfModel> model(
      const detail::GraphOptions& options = {}) const {
    detail::ExportedGraph whole = graph;
    whole.training = module;
    return detail::graph_of_model(std::move(whole), options);
  }
  ModelSpec described(const MicrobatchShape& shape = {2, 16},
                      const detail::GraphOptions& options = {}) const {
    return detail::describe_graph(model(options), options, shape);
  }

  detail::ExportedGraph graph;
};

inline Modules in_block(int i) {
  return {{"blocks", "m.List"}, {"blocks." + std::to_string(i), "m.Block"}};
}
inline Modules in_act(int i) {
  Modules modules = in_block(i);
  modules.emplace_back("blocks." + std::to_string(i) + ".act", "m.Act");
  return modules;
}

// An embedding table, blocks of x + relu(linear(x)), and a head: x0 -> x1 -> .. -> logits.
class SmallDecoder : public WrittenGraph {
 public:
  explicit SmallDecoder(int num_blocks = 2) {
    batch("input_ids", {"s0", "s1"}, "int64");
    parameter("words.weight", {16, 4});
    for (int i = 0; i < num_blocks; ++i)
      parameter("blocks." + std::to_string(i) + ".weight", {4, 4});
    parameter("head.weight", {16, 4});
    add({{"words", "m.Words"}}, "aten.embedding.default",
        {{"weight", Value{"words.weight"}}, {"indices", Value{"input_ids"}}}, "x0");
    for (int i = 0; i < num_blocks; ++i) block(i);
    linear({{"head", "m.Head"}}, "x" + std::to_string(num_blocks), "head.weight", "logits_value",
           {"s0", "s1", "16"});
    result("logits", "logits_value");
  }

  void block(int i) {
    const std::string n = std::to_string(i);
    linear(in_block(i), "x" + n, "blocks." + n + ".weight", "h" + n);
    add(in_act(i), "aten.relu.default", {{"self", Value{"h" + n}}}, "r" + n);
    add(in_block(i), "aten.add.Tensor", {{"self", Value{"x" + n}}, {"other", Value{"r" + n}}},
        "x" + std::to_string(i + 1));
  }
  GraphNode& node_of(const std::string& value) {
    for (GraphNode& each : module.nodes)
      if (!each.results.empty() && each.results.front().values.front() == find(value)) return each;
    return module.nodes.front();
  }
  // Replaces the first argument of the node that writes `value`.
  void feed(const std::string& value, const std::string& from) {
    node_of(value).arguments.front().second.value = find(from);
  }
  // Moves the last node in front of the `number` nodes before it.
  void move_last(int number) {
    std::rotate(module.nodes.end() - 1 - number, module.nodes.end() - 1, module.nodes.end());
  }
};

}  // namespace sluice::test
