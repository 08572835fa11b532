// A model as a torch.export archive describes it, without torch: nodes in order, the values between
// them, what enters and leaves, where the bytes of weights are.
//
// Owns: these values, reading them. Does not own: cutting the graph (graph_layers.h), running it
// (src/graph), what an operator costs (family/operators.h).
//
// Invariants of what read_exported_graph() returns:
//  1. every number of a value is an index into `values`; a value is written once, by an input or
//  one
//     node, before every node that reads it;
//  2. the nodes of higher-order operators stand in the place of these (Node::grad_mode);
//  3. dtypes are names as in safetensors' and sluice's messages ("float32", "int64", "bool").
// Thread-safety: values.
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
  enum class Kind : std::uint8_t { kTensor, kInt, kFloat, kBool };  // but tensors, symbolic numbers
  std::string name;                                                 // in the archive
  Kind kind = Kind::kTensor;
  // A tensor's dtype and sizes; "" and none of a result that nothing reads, which the archive does
  // not describe.
  std::string dtype;
  std::vector<SizeExpression> sizes;
  // The strides that the tensor had at export; none where the archive does not say them.
  std::vector<SizeExpression> strides;
  // The value of a symbolic number, where the archive says what it is.
  std::optional<SizeExpression> number;
};

struct GraphArgument {
  enum class Kind : std::uint8_t {
    kNone,
    kValue,         // `value`
    kInt,           // `integer`
    kFloat,         // `real`
    kComplex,       // `real`, `imaginary`
    kBool,          // `integer`
    kString,        // `text`
    kDtype,         // `text`: "float32"
    kLayout,        // `text`: "strided"
    kDevice,        // `text`: "cpu", "cuda:0"
    kMemoryFormat,  // `text`: "contiguous", "preserve", "channels_last", "channels_last_3d"
    kList,          // `list`, of any of these
  };
  Kind kind = Kind::kNone;
  int value = -1;
  std::int64_t integer = 0;
  double real = 0, imaginary = 0;
  std::string text;
  std::vector<GraphArgument> list;
};

struct ModuleCall {
  std::string key;         // of the call: "encoder.dropout@1" for the second of that module
  std::string path;        // full name of the module; "": the model itself
  std::string class_name;  // "transformers.models.llama.modeling_llama.LlamaMLP"
};

struct GraphNode {
  enum class GradMode : std::uint8_t { kAsCaller, kOff, kOn };

  std::string target;  // "aten.linear.default", "_operator.mul", "torch.sym_ite"
  std::vector<std::pair<std::string, GraphArgument>> arguments;  // by name, in the order as written
  // The results, one entry each. A result that is a list of tensors has all their values.
  struct Result {
    bool is_list = false;
    std::vector<int> values;  // -1: a result that is none
  };
  std::vector<Result> results;
  std::vector<ModuleCall> modules;  // that it is inside, outermost first; the model itself left out
  std::string source;               // "modeling_llama.py:123"; "": not known
  GradMode grad_mode = GradMode::kAsCaller;
  int higher_order = -1;  // nodes of one higher-order operator have its number; -1: of none

  const GraphArgument* argument(std::string_view name) const;
  const std::string& module_path() const;  // of the innermost; "" of none
};

struct GraphInput {
  enum class Kind : std::uint8_t {
    kBatch,      // `name`: as the model's forward calls it
    kParameter,  // `name`: full name
    kBuffer,     // `name`: full name
    kConstant,   // `name`: of a constant tensor
    kNumber,     // an argument that was a number, a text or none when exported: `constant`
  };
  Kind kind = Kind::kBatch;
  std::string name;
  int value = -1;          // -1: kNumber
  bool persistent = true;  // kBuffer: is in a state dictionary
  GraphArgument constant;
};

struct GraphOutput {
  enum class Kind : std::uint8_t { kResult, kBufferWrite };
  Kind kind = Kind::kResult;
  std::string name;     // "logits"; of kBufferWrite the full name of the buffer
  GraphArgument value;  // kValue, or a constant
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

// The bytes of one tensor.
struct GraphTensor {
  std::string name;    // full name
  std::string record;  // equal ones share their bytes: tied; "": not in the archive
  std::string dtype;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t storage_offset = 0;     // in elements
  std::int64_t offset = 0, bytes = 0;  // of the record in the file
  bool trainable = true;               // requires_grad
  bool is_parameter = true;
};

// The facts that tools/sluice_export.py adds to torch's (extra/sluice.json); empty without it.
struct GraphFacts {
  struct Size {
    std::string name;    // "rows", "length", "decoder_length"
    std::string symbol;  // "s70"
    std::int64_t example = 0;
  };
  bool present = false;
  std::string tool, torch, transformers;                  // versions
  std::string class_name;                                 // of the model
  std::vector<std::pair<std::string, std::string>> ties;  // {name, name of the first use}
  // {full name, name in the files of model.path}, where transformers stores it under another.
  std::vector<std::pair<std::string, std::string>> stored;
  std::vector<Size> sizes;
  std::vector<std::string> outputs;     // names of the results, in order
  std::string config;                   // config.json as text; "": none
  std::string dtype;                    // of the floating parameters
  std::string loss_output, loss_count;  // names of results; "": none
  bool loss_is_sum = false;
  bool has_weights = false;
  std::string
      checked;  // what was compared before writing: "model", "two layers of each kind", "no"
  std::vector<std::string> notes;
};

struct ExportedGraph {
  std::string path;
  std::string torch_version;  // that wrote it; "": not said
  GraphModule training;
  std::optional<GraphModule> evaluation;  // where model.eval() is another graph
  std::vector<GraphTensor> tensors;       // parameters, buffers and constants
  GraphFacts facts;

  const GraphTensor* tensor(std::string_view name) const;
};

// path: an archive of torch.export.save(), with tools/sluice_export.py's file in it or without.
// Reads neither the bytes of weights nor any pickle. Throws Error(kInput) naming file and entry: no
// zip file, a compressed, doubled, overlapping or truncated entry, JSON that is not one or too deep
// or too long, an unknown version of the schema, a value that is read before it is written or
// written twice, a tensor whose elements are outside its record.
ExportedGraph read_exported_graph(const std::string& path);
class ZipFile;
ExportedGraph read_exported_graph(const ZipFile& zip);  // the same of a file that is open

// "aten.linear(hidden, weight) -> linear_3 of model.layers.0.mlp": a node in messages, of bounded
// length.
std::string to_text(const GraphNode& node, const GraphModule& module);

// "node 'linear_3' of module 'model.layers.0.mlp' (modeling_llama.py:12)": where a node stands, in
// messages.
std::string place_of(const GraphNode& node, const GraphModule& module);

// True for a path whose name ends with ".pt2".
bool is_graph_path(const std::string& path);

}  // namespace sluice::detail
