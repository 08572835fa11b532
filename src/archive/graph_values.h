// The values of a graph while it is read: names in scopes, and arguments that refer to them.
//
// Owns: values and the expressions of their sizes, kinds of arguments. Does not own: nodes and
// signatures (graph_json.cpp).
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "archive/exported_graph.h"
#include "archive/json_fields.h"

namespace sluice::detail {

// The names of one graph, whose tables of values are its own.
struct GraphScope {
  explicit GraphScope(const JsonField& graph)
      : tensors(graph.at("tensor_values").json()),
        ints(graph.at("sym_int_values").json()),
        bools(graph.at("sym_bool_values").json()),
        floats(graph.json().at("sym_float_values")) {}
  const Json& tensors;
  const Json& ints;
  const Json& bools;
  const Json& floats;
  std::string prefix;  // of its values' names
  std::unordered_map<std::string, GraphArgument> named;
};

// All throw Error(kInput) at place_.
class GraphValues {
 protected:
  // A new value of a name in a graph, which has none so far. is_output: of an operator, which the
  // archive may leave undescribed.
  int define(const std::string& name, GraphValue::Kind kind, GraphScope& scope, bool is_output);
  // Gives a name its meaning, a value or a constant; it must have none so far in the graph.
  void bind(const std::string& name, GraphArgument argument, GraphScope& scope);
  GraphArgument argument(const Json& json, const GraphScope& scope);
  // The name in an argument that is a value; nullptr for a constant.
  const std::string* name_of(const Json& json) const;
  GraphValue::Kind kind_of(const Json& json) const;

  JsonField field(const Json& json, std::string_view name = {}) const {
    return {json, place_, name};
  }
  [[noreturn]] void refuse(const std::string& what) const { refuse_archive(place_, what); }

  std::string place_;  // of what is read now
  std::vector<GraphValue> values_;

 private:
  SizeExpression expression(const std::string& text);
  // A number that an archive has as {"as_int": 3} or {"as_expr": {"expr_str": ..}}.
  SizeExpression symbolic(const Json& json);
  void describe_tensor(const Json& meta, GraphValue& value);
  std::vector<SizeExpression> strides_of(const Json& meta);
  const GraphArgument& lookup(const std::string& name, const GraphScope& scope) const;

  GraphArgument integer(const Json& json) const;
  GraphArgument real(const Json& json) const;
  GraphArgument boolean(const Json& json) const;
  GraphArgument string(const Json& json) const;
  GraphArgument tensor(const Json& json, const GraphScope& scope) const;
  GraphArgument optional_tensor(const Json& json, const GraphScope& scope) const;
  GraphArgument symbol(const Json& json, const GraphScope& scope) const;
  GraphArgument word(GraphArgument::Kind kind, const Json& json,
                     std::string_view (*table)(std::int64_t)) const;
  GraphArgument device(const Json& json) const;

  std::map<std::string, SizeExpression> expressions_;  // by their texts, which come many times
};

}  // namespace sluice::detail
