// Runs exported archives node by node and compares with Python's exported program on the same
// inputs.
//
// usage: oracle_graph ARCHIVE WEIGHTS.safetensors EXPECTED.safetensors ...
//
// WEIGHTS: parameters and persistent buffers by name, in a file or in a directory with one
// model.safetensors. "-": the archive contains them.
// EXPECTED: "input.NAME"; "cotangent.NAME" of the results where a backward starts; "output.NAME";
// "grad.NAME" of parameters; "buffer.NAME" of buffers that change, after the run.
//
// Runs the whole graph and groups of nodes. Prints one line each: how many results, gradients and
// buffers have the same bits, and the largest differences. Exits 1 if any differs.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "archive/exported_graph.h"
#include "graph/check_rules.h"
#include "graph/dtypes.h"
#include "graph/graph_program.h"
#include "io/safetensors.h"
#include "layer/autocast.h"
#include "sluice/error.h"

namespace sluice::testing {
namespace {

using namespace detail;
using Tensors = std::vector<at::Tensor>;

at::Tensor read_record(const ExportedGraph& graph, const GraphTensor& tensor) {
  const at::ScalarType dtype = *scalar_type(tensor.dtype);
  std::ifstream file(graph.path, std::ios::binary);
  at::Tensor bytes = at::empty({tensor.bytes}, at::kByte);
  file.seekg(tensor.offset);
  file.read(static_cast<char*>(bytes.data_ptr()), tensor.bytes);
  return bytes.view(dtype).as_strided(tensor.sizes, tensor.strides, tensor.storage_offset).clone();
}

// Parameters, buffers and constants by name. Tied ones are a single tensor.
class Weights {
 public:
  Weights(const ExportedGraph& graph, const std::string& path) : graph_(graph) {
    for (const auto& [name, first] : graph.facts.ties) first_use_[name] = first;
    if (path == "-") return;
    const std::filesystem::path file = std::filesystem::is_directory(path)
                                           ? std::filesystem::path(path) / "model.safetensors"
                                           : std::filesystem::path(path);
    file_.emplace(file.string());
  }

  at::Tensor get(const GraphInput& input) {
    const auto tied = first_use_.find(input.name);
    const std::string name = tied == first_use_.end() ? input.name : tied->second;
    const auto known = tensors_.find(name);
    if (known != tensors_.end()) return known->second;
    const GraphTensor* tensor = graph_.tensor(input.name);
    // A file may store a tied tensor under any of its names.
    std::vector<std::string> names = {name};
    for (const auto& [use, first] : graph_.facts.ties)
      if (first == name) names.push_back(use);
    std::string stored;
    for (const std::string& each : names) {
      for (const auto& [own, other] : graph_.facts.stored)
        if (own == each && file_ && file_->find(other)) stored = other;
      if (stored.empty() && file_ && file_->find(each)) stored = each;
    }
    const bool in_file = !stored.empty();
    if (!in_file && (!tensor || tensor->record.empty()))
      throw Error(ErrorKind::kInput, {.what = "no bytes of '" + name + "'"});
    at::Tensor value = in_file ? file_->read(stored) : read_record(graph_, *tensor);
    if (tensor) value = value.to(*scalar_type(tensor->dtype));
    if (input.kind == GraphInput::Kind::kParameter && (!tensor || tensor->trainable))
      value.set_requires_grad(true);
    return tensors_[name] = value;
  }
  const std::map<std::string, at::Tensor>& all() const { return tensors_; }
  std::string first_use(const std::string& name) const {
    const auto tied = first_use_.find(name);
    return tied == first_use_.end() ? name : tied->second;
  }

 private:
  const ExportedGraph& graph_;
  std::optional<SafetensorsReader> file_;
  std::map<std::string, std::string> first_use_;
  std::map<std::string, at::Tensor> tensors_;
};

struct Count {
  int same = 0, all = 0;
  double largest = 0;
  void add(const at::Tensor& found, const at::Tensor& expected) {
    ++all;
    same += found.defined() && found.scalar_type() == expected.scalar_type() &&
                    at::equal(found, expected)
                ? 1
                : 0;
    if (!found.defined() || found.sizes() != expected.sizes()) {
      largest = INFINITY;
    } else if (found.numel() > 0) {
      const at::Tensor difference =
          (found.detach().to(at::kDouble) - expected.to(at::kDouble)).abs().max();
      largest = std::max(largest, difference.item<double>());
    }
  }
};

struct Compared {
  Count outputs, gradients, buffers;
  std::size_t num_calls = 0, num_nodes = 0;
  bool is_same() const {
    return outputs.same == outputs.all && gradients.same == gradients.all &&
           buffers.same == buffers.all && outputs.all > 0;
  }
};

void turn_dropout_off(GraphModule& module) {
  for (GraphNode& node : module.nodes) {
    const bool is_dropout = node.target.find("dropout") != std::string::npos;
    for (auto& [name, argument] : node.arguments) {
      if (name != "dropout_p" && !(is_dropout && name == "p")) continue;
      argument.kind = GraphArgument::Kind::kFloat;
      argument.real = 0;
    }
  }
}

void add_values(const GraphArgument& argument, std::set<int>& to) {
  if (argument.kind == GraphArgument::Kind::kValue) to.insert(argument.value);
  for (const GraphArgument& item : argument.list) add_values(item, to);
}

struct How {
  std::optional<std::int64_t> seed;  // set: dropout draws with this seed
  bool evaluation = false;
  bool autocast = false;
};

const char* words(const How& how) {
  if (how.evaluation) return " in evaluation";
  if (how.autocast) return " under autocast";
  return how.seed ? " with dropout" : "";
}

Compared compare(const ExportedGraph& graph, const How& how, const std::string& weights_path,
                 const SafetensorsReader& expected, int group_size) {
  GraphModule module = graph.training;
  if (how.evaluation && graph.evaluation) {
    module = *graph.evaluation;
  } else if (!how.evaluation && !how.seed) {
    turn_dropout_off(module);
  }
  Weights weights(graph, weights_path);
  std::map<int, at::Tensor> values;
  std::set<int> held_values;
  InputSizes sizes;
  for (const GraphInput& input : module.inputs) {
    if (input.value < 0) continue;
    if (input.kind == GraphInput::Kind::kBatch) {
      values[input.value] = expected.read("input." + input.name);
      sizes[input.name] = values[input.value].sizes().vec();
    } else {
      values[input.value] = weights.get(input);
      held_values.insert(input.value);
    }
  }
  check_rules(module, sizes);
  Compared result;
  result.num_nodes = module.nodes.size();
  const int num_nodes = static_cast<int>(module.nodes.size());
  std::set<int> wanted_last;
  for (const GraphOutput& output : module.outputs) add_values(output.value, wanted_last);
  std::optional<AutocastScope> autocast;
  if (how.autocast) autocast.emplace(at::kBFloat16);
  at::manual_seed(static_cast<std::uint64_t>(how.seed.value_or(0)));
  for (int begin = 0; begin < num_nodes; begin += group_size) {
    const int end = std::min(begin + group_size, num_nodes);
    std::vector<int> nodes, reads, held, writes;
    std::set<int> read, made, later = wanted_last;
    for (int i = 0; i < num_nodes; ++i) {
      const GraphNode& node = module.nodes[static_cast<std::size_t>(i)];
      std::set<int> own;
      for (const auto& [name, argument] : node.arguments) add_values(argument, own);
      if (i >= end) later.insert(own.begin(), own.end());
      if (i < begin || i >= end) continue;
      nodes.push_back(i);
      for (const int value : own) {
        if (!made.contains(value)) read.insert(value);
      }
      for (const GraphNode::Result& each : node.results)
        made.insert(each.values.begin(), each.values.end());
    }
    for (const int value : read) (held_values.contains(value) ? held : reads).push_back(value);
    for (const int value : made) {
      if (value >= 0 && later.contains(value)) writes.push_back(value);
    }
    const GraphProgram program(module, nodes, reads, held, writes, {});
    result.num_calls += program.num_calls();
    Tensors given, given_held;
    for (const int value : reads) given.push_back(values.at(value));
    for (const int value : held) given_held.push_back(values.at(value));
    const Tensors written = program.run(given, given_held, {.training = !how.evaluation});
    for (std::size_t i = 0; i < writes.size(); ++i) values[writes[i]] = written[i];
  }
  autocast.reset();
  Tensors roots, gradients;
  std::size_t number = 0;
  for (const GraphOutput& output : module.outputs) {
    const std::string name =
        number < graph.facts.outputs.size() ? graph.facts.outputs[number] : output.name;
    ++number;
    if (output.value.kind != GraphArgument::Kind::kValue) continue;
    const at::Tensor value = values.at(output.value.value);
    if (expected.find("output." + name)) result.outputs.add(value, expected.read("output." + name));
    if (expected.find("cotangent." + name)) {
      roots.push_back(value);
      gradients.push_back(expected.read("cotangent." + name));
    }
  }
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  for (const std::string& name : expected.names()) {
    if (name.starts_with("grad.")) {
      const std::string first = weights.first_use(name.substr(5));
      const auto found = weights.all().find(first);
      result.gradients.add(found == weights.all().end() ? at::Tensor() : found->second.grad(),
                           expected.read(name));
    } else if (name.starts_with("buffer.")) {
      const auto found = weights.all().find(name.substr(7));
      result.buffers.add(found == weights.all().end() ? at::Tensor() : found->second,
                         expected.read(name));
    }
  }
  return result;
}

bool run(const std::string& archive, const std::string& weights, const std::string& answers) {
  const std::string name = std::filesystem::path(archive).stem();
  try {
    const ExportedGraph graph = read_exported_graph(archive);
    const SafetensorsReader expected(answers);
    How how{.evaluation = expected.find("evaluation") != nullptr};
    how.autocast = expected.find("autocast") != nullptr;
    if (expected.find("seed")) how.seed = expected.read("seed").item<std::int64_t>();
    bool is_same = true;
    for (const int group : {1 << 30, 7}) {
      const Compared found = compare(graph, how, weights, expected, group);
      is_same = is_same && found.is_same();
      std::printf(
          "%s %s%s %s: %zu nodes, %zu calls; results %d/%d (%.1e), gradients %d/%d (%.1e), "
          "buffers %d/%d (%.1e)\n",
          found.is_same() ? "ok" : "DIFFERS", name.c_str(), words(how),
          group == 7 ? "in groups of 7" : "whole", found.num_nodes, found.num_calls,
          found.outputs.same, found.outputs.all, found.outputs.largest, found.gradients.same,
          found.gradients.all, found.gradients.largest, found.buffers.same, found.buffers.all,
          found.buffers.largest);
    }
    return is_same;
  } catch (const std::exception& error) {
    std::printf("DIFFERS %s: %s\n", name.c_str(), error.what());
    return false;
  }
}

}  // namespace
}  // namespace sluice::testing

int main(int count, char** arguments) {
  if (count < 4 || (count - 1) % 3 != 0) {
    std::fputs("usage: oracle_graph ARCHIVE WEIGHTS EXPECTED ...\n", stderr);
    return 2;
  }
  at::set_num_threads(1);
  bool is_same = true;
  for (int i = 1; i < count; i += 3)
    is_same = sluice::testing::run(arguments[i], arguments[i + 1], arguments[i + 2]) && is_same;
  return is_same ? 0 : 1;
}
