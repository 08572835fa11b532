#include "archive/graph_flow.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "archive/graph_nodes.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using InputKind = GraphInput::Kind;
using Names = std::vector<std::string>;

}  // namespace

GraphFlow::GraphFlow(const ExportedGraph& graph, const GraphModule& module, const Names& wanted)
    : graph_(graph), module_(module) {
  find_inputs();
  find_writers();
  find_outputs(wanted);
  find_written();
  find_free();
  find_order();
  find_forbidden();
}

bool GraphFlow::is_known_number(int i) const {
  const std::vector<int> written = values_written(node(i));
  return !written.empty() && std::all_of(written.begin(), written.end(), [&](int value) {
    const GraphValue& of = module_.values[static_cast<std::size_t>(value)];
    return of.kind != GraphValue::Kind::kTensor && of.number.has_value();
  });
}

void GraphFlow::find_inputs() {
  input_of_.assign(module_.values.size(), nullptr);
  value_names_.resize(module_.values.size());
  for (std::size_t v = 0; v < module_.values.size(); ++v) value_names_[v] = module_.values[v].name;
  for (const GraphInput& input : module_.inputs) {
    if (input.value < 0) continue;
    input_of_[static_cast<std::size_t>(input.value)] = &input;
    if (input.kind != InputKind::kBatch) continue;
    value_names_[static_cast<std::size_t>(input.value)] = input.name;
    if (is_tensor(input.value)) inputs_.push_back(input.name);
  }
}

void GraphFlow::find_writers() {
  writer_.assign(module_.values.size(), -1);
  readers_.resize(module_.values.size());
  base_.resize(module_.values.size());
  for (std::size_t v = 0; v < base_.size(); ++v) base_[v] = static_cast<int>(v);
  // Each use of a parameter is a separate value, but all share one tensor.
  std::map<std::string_view, int> parameters;
  for (const GraphInput& input : module_.inputs)
    if (input.kind == InputKind::kParameter)
      join_storages(parameters.emplace(input.name, input.value).first->second, input.value);
  for (int i = 0; i < num_nodes(); ++i) {
    for (const int value : values_read(node(i)))
      readers_[static_cast<std::size_t>(value)].push_back(i);
    const std::vector<int> shared = values_shared(node(i), module_);
    for (const int value : values_written(node(i))) {
      writer_[static_cast<std::size_t>(value)] = i;
      for (const int each : shared) join_storages(each, value);
    }
  }
  for (std::size_t v = 0; v < base_.size(); ++v) base_[v] = base_of(static_cast<int>(v));
}

// Returns the first value that may share storage with `value`.
int GraphFlow::base_of(int value) {
  int base = value;
  while (base_[static_cast<std::size_t>(base)] != base)
    base = base_[static_cast<std::size_t>(base)];
  while (base_[static_cast<std::size_t>(value)] != base)
    value = std::exchange(base_[static_cast<std::size_t>(value)], base);
  return base;
}

void GraphFlow::join_storages(int a, int b) {
  const int base_of_a = base_of(a), base_of_b = base_of(b);
  base_[static_cast<std::size_t>(std::max(base_of_a, base_of_b))] = std::min(base_of_a, base_of_b);
}

void GraphFlow::find_outputs(const Names& wanted) {
  is_result_.assign(module_.values.size(), false);
  Names known;
  for (const GraphOutput& output : module_.outputs)
    if (output.kind == GraphOutput::Kind::kResult) known.push_back(output.name);
  for (const std::string& name : wanted) {
    const auto found = std::find_if(
        module_.outputs.begin(), module_.outputs.end(), [&](const GraphOutput& output) {
          return output.kind == GraphOutput::Kind::kResult && output.name == name;
        });
    if (found == module_.outputs.end()) {
      throw Error(ErrorKind::kInput, {.what = "the graph has no result '" + name + "'",
                                      .where = graph_.path,
                                      .remedy = suggest_name(name, known)});
    }
    const GraphArgument& argument = found->value;
    if (argument.kind != GraphArgument::Kind::kValue || !is_tensor(argument.value)) {
      throw Error(ErrorKind::kInput,
                  {.what = "the result '" + name + "' of the graph is not a tensor",
                   .where = graph_.path,
                   .remedy = "export the model with a tensor of this name"});
    }
    if (!is_result(argument.value)) outputs_.push_back(argument.value);
    is_result_[static_cast<std::size_t>(argument.value)] = true;
    std::string& shown = value_names_[static_cast<std::size_t>(argument.value)];
    if (!input_of_[static_cast<std::size_t>(argument.value)]) shown = name;
    output_names_.push_back(shown);
  }
}

void GraphFlow::find_written() {
  std::vector<bool> is_written(module_.values.size(), false);
  for (int i = 0; i < num_nodes(); ++i)
    for (const int value : values_changed(node(i)))
      is_written[static_cast<std::size_t>(base_[static_cast<std::size_t>(value)])] = true;
  written_.assign(module_.values.size(), false);
  for (std::size_t v = 0; v < written_.size(); ++v)
    written_[v] = is_written[static_cast<std::size_t>(base_[v])];
  for (const GraphInput& input : module_.inputs) {
    if (input.kind != InputKind::kParameter || !is_written_value(input.value)) continue;
    throw Error(ErrorKind::kInput,
                {.what = "the graph changes the parameter '" + input.name + "' in place",
                 .where = graph_.path + ", " + place_of(changing_node(input.value), module_),
                 .remedy = "leave parameters to the optimizer: export the model without this "
                           "operator"});
  }
}

const GraphNode& GraphFlow::changing_node(int value) const {
  const int base = base_[static_cast<std::size_t>(value)];
  return *std::ranges::find_if(module_.nodes, [&](const GraphNode& each) {
    return std::ranges::any_of(values_changed(each), [&](int changed) {
      return base_[static_cast<std::size_t>(changed)] == base;
    });
  });
}

void GraphFlow::find_free() {
  value_free_.assign(module_.values.size(), false);
  is_free_.assign(module_.nodes.size(), false);
  for (std::size_t v = 0; v < module_.values.size(); ++v) {
    const GraphInput* input = input_of_[v];
    value_free_[v] = input && input->kind != InputKind::kParameter && !written_[v];
  }
  for (int i = 0; i < num_nodes(); ++i) {
    const std::vector<int> read = values_read(node(i)), written = values_written(node(i));
    const auto is_free_value = [&](int value) {
      return value_free_[static_cast<std::size_t>(value)] ||
             module_.values[static_cast<std::size_t>(value)].number.has_value();
    };
    const bool is_written = std::any_of(written.begin(), written.end(),
                                        [&](int value) { return is_written_value(value); });
    const bool is_free = !is_known_number(i) && values_changed(node(i)).empty() && !is_written &&
                         !draws_random_numbers(node(i)) &&
                         std::all_of(read.begin(), read.end(), is_free_value);
    is_free_[static_cast<std::size_t>(i)] = is_free;
    if (is_free)
      for (const int value : written) value_free_[static_cast<std::size_t>(value)] = true;
  }
}

// Finds the nodes that results or written buffers need, with the assertions in their modules. Drops
// assertions on free values (see graph_flow.h), whose shapes are checked by rules.
void GraphFlow::find_order() {
  std::vector<bool> is_needed(module_.values.size(), false);
  for (const int value : outputs_) is_needed[static_cast<std::size_t>(value)] = true;
  for (const GraphOutput& output : module_.outputs)
    if (output.kind == GraphOutput::Kind::kBufferWrite)
      for (const int value : values_of(output.value))
        is_needed[static_cast<std::size_t>(value)] = true;
  std::set<std::string> paths;
  std::vector<bool> runs(module_.nodes.size(), false);
  for (int i = num_nodes(); i-- > 0;) {
    const std::vector<int> read = values_read(node(i)), written = values_written(node(i));
    const bool writes =
        !values_changed(node(i)).empty() || std::any_of(read.begin(), read.end(), [&](int value) {
          return input_of_[static_cast<std::size_t>(value)] && is_written_value(value);
        });
    if (!writes && std::none_of(written.begin(), written.end(), [&](int value) {
          return is_needed[static_cast<std::size_t>(value)];
        }))
      continue;
    runs[static_cast<std::size_t>(i)] = true;
    paths.insert(node(i).module_path());
    for (const int value : read) is_needed[static_cast<std::size_t>(value)] = true;
  }
  for (int i = 0; i < num_nodes(); ++i) {
    if (is_free_[static_cast<std::size_t>(i)] || is_known_number(i)) continue;
    const bool asserts = values_written(node(i)).empty() && paths.contains(node(i).module_path());
    if (runs[static_cast<std::size_t>(i)] || asserts) order_.push_back(i);
  }
}

void GraphFlow::find_forbidden() {
  std::vector<int> position(module_.nodes.size(), -1);
  for (std::size_t p = 0; p < order_.size(); ++p)
    position[static_cast<std::size_t>(order_[p])] = static_cast<int>(p);
  std::vector<int> change(order_.size() + 2, 0);  // change in the number of open spans
  const auto forbid = [&](int first, int last) {
    ++change[static_cast<std::size_t>(first) + 1];
    --change[static_cast<std::size_t>(last) + 1];
  };
  const auto made_at = [&](int value) {
    const int writer = writer_[static_cast<std::size_t>(value)];
    return writer < 0 ? -1 : position[static_cast<std::size_t>(writer)];
  };
  struct Span {  // nodes that use one storage written in place
    int first = -1, last = -1, last_change = -1;
    bool is_input = false;
  };
  std::map<int, Span> spans;
  const auto touch = [&](int value, int here) -> Span* {
    if (!is_written_value(value)) return nullptr;
    Span& span = spans[base_[static_cast<std::size_t>(value)]];
    if (span.first < 0) span.first = here;
    span.last = here;
    if (input_of_[static_cast<std::size_t>(value)]) span.is_input = true;
    return &span;
  };
  std::map<int, int> first_of_group;
  for (std::size_t p = 0; p < order_.size(); ++p) {
    const int here = static_cast<int>(p);
    const GraphNode& own = node(order_[p]);
    for (const int value : values_written(own)) touch(value, here);
    for (const int value : values_read(own)) {
      touch(value, here);
      // A symbolic number that does not follow from tensor sizes cannot cross a cut.
      const GraphValue& of = module_.values[static_cast<std::size_t>(value)];
      if (of.kind == GraphValue::Kind::kTensor || of.number) continue;
      if (made_at(value) >= 0) forbid(made_at(value), here);
    }
    for (const int value : values_changed(own)) touch(value, here)->last_change = here;
    if (own.higher_order >= 0) {
      const auto [first, added] = first_of_group.emplace(own.higher_order, here);
      if (!added) forbid(first->second, here);
    }
  }
  // Each layer has a copy of a batch input. So if a node writes to an input, one layer must have
  // all nodes that use it.
  for (const auto& [base, span] : spans)
    if (span.is_input || span.last_change > span.first)
      forbid(span.first, span.is_input ? span.last : span.last_change);
  no_cut_.assign(order_.size() + 1, false);
  int open = 0;
  for (std::size_t p = 0; p < no_cut_.size(); ++p) no_cut_[p] = (open += change[p]) > 0;
}

}  // namespace sluice::detail
