// A small archive for tests, in the layout of torch.export.save. Tests change it before reading it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "archive/exported_graph.h"
#include "archive/zip_writer.h"

namespace sluice::test {

using GraphJson = nlohmann::json;

inline GraphJson tensor_json(int dtype, const std::vector<std::int64_t>& sizes) {
  GraphJson meta = {{"dtype", dtype},
                    {"sizes", GraphJson::array()},
                    {"requires_grad", true},
                    {"device", {{"type", "cpu"}, {"index", nullptr}}},
                    {"layout", 7},
                    {"strides", GraphJson::array()},
                    {"storage_offset", {{"as_int", 0}}}};
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    meta["sizes"].insert(meta["sizes"].begin(), GraphJson{{"as_int", sizes[i]}});
    meta["strides"].insert(meta["strides"].begin(), GraphJson{{"as_int", stride}});
    stride *= sizes[i];
  }
  return meta;
}

inline GraphJson named_tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

inline GraphJson node_json(const std::string& target, const std::vector<GraphJson>& inputs,
                           const std::vector<GraphJson>& outputs) {
  return {{"target", target},
          {"inputs", inputs},
          {"outputs", outputs},
          {"metadata", {{"nn_module_stack", "L__self__,,M;L__self__part,part,m.Part"}}}};
}

inline GraphJson argument_json(const std::string& name, const GraphJson& argument) {
  return {{"name", name}, {"arg", argument}, {"kind", 1}};
}

// relu(linear(x, part.weight)): x is [s0, 3], the weight [2, 3].
inline GraphJson small_program() {
  GraphJson program = GraphJson::parse(R"({
    "graph_module": {
      "graph": {
        "inputs": [{"as_tensor": {"name": "p_part_weight"}}, {"as_tensor": {"name": "x"}}],
        "outputs": [{"as_tensor": {"name": "relu"}}],
        "nodes": [], "tensor_values": {},
        "sym_int_values": {}, "sym_bool_values": {}, "sym_float_values": {}
      },
      "signature": {
        "input_specs": [
          {"parameter": {"arg": {"name": "p_part_weight"}, "parameter_name": "part.weight"}},
          {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
        "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "relu"}}}}]
      },
      "module_call_graph": []
    },
    "schema_version": {"major": 8, "minor": 20},
    "range_constraints": {"s0": {"min_val": 2, "max_val": null}},
    "guards_code": [],
    "torch_version": "2.13.0"
  })");
  GraphJson& graph = program["graph_module"]["graph"];
  graph["nodes"] = std::vector<GraphJson>{
      node_json("torch.ops.aten.linear.default",
                {argument_json("input", named_tensor("x")),
                 argument_json("weight", named_tensor("p_part_weight"))},
                {named_tensor("linear")}),
      node_json("torch.ops.aten.relu.default", {argument_json("self", named_tensor("linear"))},
                {named_tensor("relu")})};
  GraphJson x = tensor_json(7, {1, 3}), hidden = tensor_json(7, {1, 2});
  x["sizes"][0] = hidden["sizes"][0] = GraphJson::parse(R"({"as_expr": {"expr_str": "s0"}})");
  graph["tensor_values"] = {
      {"p_part_weight", tensor_json(7, {2, 3})}, {"x", x}, {"linear", hidden}, {"relu", hidden}};
  return program;
}

inline GraphJson& graph_of(GraphJson& program) { return program["graph_module"]["graph"]; }

inline GraphJson small_weights() {
  GraphJson weights = GraphJson::parse(
      R"({"config": {"part.weight": {"path_name": "weight_0", "is_param": true, "use_pickle": false}}})");
  weights["config"]["part.weight"]["tensor_meta"] = tensor_json(7, {2, 3});
  return weights;
}

struct SmallArchive {
  GraphJson program = small_program(), weights = small_weights();
  std::string facts = {}, evaluation = {};  // "": the entry is absent
  std::string record = std::string(24, 'w');
  std::string format = "pt2", version = "0", order = "little";
  std::vector<ZipPart> more = {};

  std::string bytes() const {
    std::vector<ZipPart> parts = {
        {.name = "m/archive_format", .content = format},
        {.name = "m/archive_version", .content = version},
        {.name = "m/byteorder", .content = order},
        {.name = "m/models/model.json", .content = program.dump()},
        {.name = "m/data/weights/model_weights_config.json", .content = weights.dump()},
        {.name = "m/data/weights/weight_0", .content = record, .padding = 11}};
    if (!facts.empty()) parts.push_back({.name = "m/extra/sluice.json", .content = facts});
    if (!evaluation.empty())
      parts.push_back({.name = "m/extra/evaluation.json", .content = evaluation});
    parts.insert(parts.end(), more.begin(), more.end());
    return zip_bytes(parts);
  }
  detail::ExportedGraph read() const {
    const std::string file = bytes();
    return detail::read_exported_graph(zip_of(file));
  }
};

}  // namespace sluice::test
