// Builds exported graphs by hand. Values are referred to by name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::test {

using detail::GraphArgument;
using detail::GraphInput;
using detail::GraphModule;
using detail::GraphNode;
using detail::GraphValue;
using detail::SizeExpression;

// ---- arguments ----

struct Value {
  std::string name;
};
struct Dtype {
  std::string name;
};
struct DeviceName {
  std::string name;
};
struct LayoutName {
  std::string name;
};
struct MemoryFormatName {
  std::string name;
};
struct None {};

class GraphBuilder {
 public:
  // A node argument as a test writes it: 3, 0.5, true, "tanh", Value{"x"}, {2, Value{"n"}}, ..
  class Item {
   public:
    Item(int number) : Item(static_cast<std::int64_t>(number)) {}
    Item(std::int64_t number) { set(GraphArgument::Kind::kInt).integer = number; }
    Item(double number) { set(GraphArgument::Kind::kFloat).real = number; }
    Item(bool truth) { set(GraphArgument::Kind::kBool).integer = truth; }
    Item(const char* text) { set(GraphArgument::Kind::kString).text = text; }
    Item(Dtype dtype) { set(GraphArgument::Kind::kDtype).text = std::move(dtype.name); }
    Item(DeviceName device) { set(GraphArgument::Kind::kDevice).text = std::move(device.name); }
    Item(LayoutName layout) { set(GraphArgument::Kind::kLayout).text = std::move(layout.name); }
    Item(MemoryFormatName format) {
      set(GraphArgument::Kind::kMemoryFormat).text = std::move(format.name);
    }
    Item(None) {}
    Item(Value value) : value_(std::move(value.name)) { set(GraphArgument::Kind::kValue); }
    Item(std::vector<Item> items) : items_(std::move(items)) { set(GraphArgument::Kind::kList); }

   private:
    friend class GraphBuilder;
    GraphArgument& set(GraphArgument::Kind kind) {
      argument_.kind = kind;
      return argument_;
    }
    GraphArgument argument_;
    std::string value_;
    std::vector<Item> items_;
  };
  using Arguments = std::vector<std::pair<std::string, Item>>;
  using Items = std::vector<Item>;

  int tensor(const std::string& name, const std::vector<std::string>& sizes = {},
             const std::string& dtype = "float32") {
    GraphValue value{.name = name, .dtype = dtype};
    for (const std::string& size : sizes) value.sizes.push_back(SizeExpression::parse(size));
    module.values.push_back(std::move(value));
    return static_cast<int>(module.values.size()) - 1;
  }
  // A symbolic number. An empty expression means an unknown value.
  int number(const std::string& name, const std::string& expression = {},
             GraphValue::Kind kind = GraphValue::Kind::kInt) {
    GraphValue value{.name = name, .kind = kind};
    if (!expression.empty()) value.number = SizeExpression::parse(expression);
    module.values.push_back(std::move(value));
    return static_cast<int>(module.values.size()) - 1;
  }
  int input(GraphInput::Kind kind, const std::string& name, const std::vector<std::string>& sizes,
            const std::string& dtype = "float32") {
    const int value = tensor(name, sizes, dtype);
    module.inputs.push_back({.kind = kind, .name = name, .value = value});
    return value;
  }
  int batch(const std::string& name, const std::vector<std::string>& sizes,
            const std::string& dtype = "float32") {
    return input(GraphInput::Kind::kBatch, name, sizes, dtype);
  }

  // Adds a tensor for each of `results` that does not name an existing value.
  GraphNode& node(const std::string& target, const Arguments& arguments,
                  const std::vector<std::string>& results) {
    GraphNode node{.target = target};
    for (const auto& [name, item] : arguments) node.arguments.emplace_back(name, written(item));
    for (const std::string& result : results) node.results.push_back({false, {made(result)}});
    module.nodes.push_back(std::move(node));
    return module.nodes.back();
  }
  // Adds a node whose only result is a list.
  GraphNode& list_node(const std::string& target, const Arguments& arguments,
                       const std::vector<std::string>& results) {
    GraphNode& added = node(target, arguments, {});
    added.results.push_back({true, {}});
    for (const std::string& result : results) added.results.front().values.push_back(made(result));
    return added;
  }
  static void put_inside(GraphNode& node, const std::string& path) {
    node.modules.push_back({.key = path, .path = path, .class_name = "Test"});
  }

  int find(std::string_view name) const {
    for (std::size_t i = 0; i < module.values.size(); ++i) {
      if (module.values[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }
  std::vector<int> find_all(const std::vector<std::string>& names) const {
    std::vector<int> found;
    for (const std::string& name : names) found.push_back(find(name));
    return found;
  }
  std::vector<int> all_nodes() const { return nodes(0, static_cast<int>(module.nodes.size())); }
  static std::vector<int> nodes(int begin, int end) {
    std::vector<int> numbers;
    for (int i = begin; i < end; ++i) numbers.push_back(i);
    return numbers;
  }

  GraphModule module;

 private:
  GraphArgument written(const Item& item) const {
    GraphArgument argument = item.argument_;
    if (argument.kind == GraphArgument::Kind::kValue) argument.value = find(item.value_);
    for (const Item& each : item.items_) argument.list.push_back(written(each));
    return argument;
  }
  int made(const std::string& name) {
    if (name.empty()) return -1;
    const int known = find(name);
    return known >= 0 ? known : tensor(name);
  }
};

}  // namespace sluice::test
