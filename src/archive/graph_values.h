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
  std::string prefix;
  std::unordered_map<std::string, GraphArgument> named;
};

// Reads the values of an exported graph, such as tensors and sizes, from the archive's JSON. Errors
// are Error(kInput), and name the place in the archive that place_ describes.
class GraphValues {
 protected:
  // Adds a value under a new name. The archive may not describe an operator's results (is_output).
  int define(const std::string& name, GraphValue::Kind kind, GraphScope& scope, bool is_output);
  // Precondition: the name is new.
  void bind(const std::string& name, GraphArgument argument, GraphScope& scope);
  GraphArgument argument(const Json& json, const GraphScope& scope);
  const std::string* name_of(const Json& json) const;
  GraphValue::Kind kind_of(const Json& json) const;

  JsonField field(const Json& json, std::string_view name = {}) const {
    return {json, place_, name};
  }
  [[noreturn]] void refuse(const std::string& what) const { refuse_archive(place_, what); }

  std::string place_;
  std::vector<GraphValue> values_;

 private:
  SizeExpression expression(const std::string& text);
  // Reads {"as_int": 3} or {"as_expr": {"expr_str": ..}}.
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

  std::map<std::string, SizeExpression> expressions_;
};

}  // namespace sluice::detail
