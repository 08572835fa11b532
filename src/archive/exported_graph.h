// A model read from a torch.export archive, without torch. read_exported_graph() guarantees:
// 1. A value's number is its index in `values`. Each value is written once, by an input or a node,
//    before any node reads it.
// 2. Nodes inside a higher-order operator replace that operator.
// 3. Dtypes are named as in safetensors ("float32", "int64", "bool").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive/size_expression.h"

namespace sluice::detail {

struct GraphValue {
  // All but kTensor are symbolic numbers.
  enum class Kind : std::uint8_t { kTensor, kInt, kFloat, kBool };
  std::string name;
  Kind kind = Kind::kTensor;
  // Empty (with `sizes`) for a result that no node reads, because the archive omits them.
  std::string dtype;
  std::vector<SizeExpression> sizes;
  // Strides at export; empty if unknown.
  std::vector<SizeExpression> strides;
  // Value of a symbolic number, if known.
  std::optional<SizeExpression> number;
};

struct GraphArgument {
  enum class Kind : std::uint8_t {
    kNone,
    kValue,
    kInt,           // in `integer`
    kFloat,         // in `real`
    kComplex,       // in `real`, `imaginary`
    kBool,          // in `integer`
    kString,        // in `text`
    kDtype,         // in `text`: "float32"
    kLayout,        // in `text`: "strided"
    kDevice,        // in `text`: "cuda:0"
    kMemoryFormat,  // in `text`: "channels_last"
    kList,
  };
  Kind kind = Kind::kNone;
  int value = -1;
  std::int64_t integer = 0;
  double real = 0, imaginary = 0;
  std::string text;
  std::vector<GraphArgument> list;
};

struct ModuleCall {
  std::string key;   // "encoder.dropout@1" for the module's second call
  std::string path;  // "" for the model itself
  std::string class_name;
};

struct GraphNode {
  enum class GradMode : std::uint8_t { kAsCaller, kOff, kOn };

  std::string target;  // "aten.linear.default", "_operator.mul", "torch.sym_ite"
  std::vector<std::pair<std::string, GraphArgument>> arguments;  // by name, in order
  struct Result {
    bool is_list = false;
    std::vector<int> values;  // -1 for None
  };
  std::vector<Result> results;
  std::vector<ModuleCall> modules;  // outermost first
  std::string source;               // "modeling_llama.py:123", or ""
  GradMode grad_mode = GradMode::kAsCaller;
  int higher_order = -1;  // number of the enclosing higher-order operator, or -1

  const GraphArgument* argument(std::string_view name) const;
  const std::string& module_path() const;  // innermost module, or ""
};

struct GraphInput {
  enum class Kind : std::uint8_t {
    kBatch,
    kParameter,
    kBuffer,
    kConstant,
    kNumber,  // a Python number at export; see `constant`
  };
  Kind kind = Kind::kBatch;
  std::string name;
  int value = -1;
  bool persistent = true;  // whether the state dictionary has the buffer
  GraphArgument constant;
};

struct GraphOutput {
  enum class Kind : std::uint8_t { kResult, kBufferWrite };
  Kind kind = Kind::kResult;
  std::string name;  // full name for kBufferWrite
  GraphArgument value;
};

struct SizeRange {
  std::string symbol;
  std::int64_t least = 0, most = INT64_MAX;
};

struct GraphModule {
  std::vector<GraphValue> values;
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  std::vector<GraphNode> nodes;
  std::vector<SizeRange> ranges;
  std::vector<SizeRule> rules;
};

struct GraphTensor {
  std::string name;
  std::string record;  // Archive entry, shared by tied tensors, or "".
  std::string dtype;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t storage_offset = 0;  // in elements
  std::int64_t offset = 0, bytes = 0;
  bool trainable = true;  // requires_grad
  bool is_parameter = true;
};

// Facts from extra/sluice.json, written by tools/sluice_export.py.
struct GraphFacts {
  struct Size {
    std::string name;
    std::string symbol;
    std::int64_t example = 0;
  };
  bool present = false;
  std::string tool, torch, transformers;
  std::string class_name;
  std::vector<std::pair<std::string, std::string>> ties;  // (name, name of the first use)
  // (full name, name in the files of model.path) where they differ.
  std::vector<std::pair<std::string, std::string>> stored;
  std::vector<Size> sizes;
  std::vector<std::string> outputs;
  std::string config;
  std::string dtype;  // of the floating-point parameters
  std::string loss_output, loss_count;
  bool loss_is_sum = false;
  bool has_weights = false;
  std::string checked;  // what was compared: "model", "two layers of each kind", "no"
  std::vector<std::string> notes;
};

struct ExportedGraph {
  std::string path;
  std::string torch_version;
  GraphModule training;
  std::optional<GraphModule> evaluation;  // if model.eval() gives another graph
  std::vector<GraphTensor> tensors;
  GraphFacts facts;

  const GraphTensor* tensor(std::string_view name) const;
};

// Reads an archive of torch.export.save(), but no weights or pickles. Entries of sluice are
// optional. Throws Error(kInput), with the file and entry, if the archive is invalid or has an
// unknown schema version.
ExportedGraph read_exported_graph(const std::string& path);
class ZipFile;
ExportedGraph read_exported_graph(const ZipFile& zip);

// Text for messages, of bounded length: "aten.linear(hidden, weight) -> linear_3 of
// model.layers.0.mlp".
std::string to_text(const GraphNode& node, const GraphModule& module);

// Text for messages: "node 'linear_3' of module 'model.layers.0.mlp' (modeling_llama.py:12)".
std::string place_of(const GraphNode& node, const GraphModule& module);

bool is_graph_path(const std::string& path);

}  // namespace sluice::detail
