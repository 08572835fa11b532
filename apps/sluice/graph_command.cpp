#include <algorithm>
#include <cctype>
#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "archive/allowed_nodes.h"
#include "archive/graph_model.h"
#include "archive/graph_rewrites.h"
#include "base/format.h"
#include "base/json.h"
#include "base/option_names.h"
#include "base/print.h"
#include "base/printable.h"
#include "base/text.h"
#include "command_line.h"
#include "commands.h"
#include "export_tool_text.h"
#include "family/aten_operators.h"
#include "family/aten_table.h"
#include "plan/crossing.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using detail::exported_target;
using detail::GraphNode;

struct InspectArguments {
  std::string file, layer_class, loss_output, sizes;
  std::optional<int> rows, length;
  bool json = false;
};

struct Inspected {
  std::shared_ptr<const detail::GraphOfModel> graph;
  ModelSpec spec;
  MicrobatchShape shape;
  detail::SymbolValues sizes;
};

std::string option_of(std::string_view option) {
  if (option == "layer_class") return "--layer-class";
  if (option == "loss_output") return "--loss-output";
  if (option == "microbatch_size") return "--rows";
  if (option == "graph_sizes") return "--sizes";
  return option == "seq_len" ? "--length" : "";
}

Inspected inspected(const InspectArguments& arguments) {
  Inspected result;
  detail::GraphOptions options;
  options.cuts.layer_class = arguments.layer_class;
  options.loss_output = arguments.loss_output;
  options.needs_loss = false;
  options.allows_refused = true;
  options.sizes = detail::sizes_by_name(split(arguments.sizes, ','));
  result.graph = detail::graph_of_model(detail::read_exported_graph(arguments.file), options);
  result.shape = detail::exported_shape(*result.graph);
  result.shape.rows = arguments.rows.value_or(static_cast<int>(result.shape.rows));
  result.shape.length = arguments.length.value_or(static_cast<int>(result.shape.length));
  result.spec = detail::describe_graph(result.graph, options, result.shape);
  result.sizes = detail::sizes_of(*result.graph, result.shape, options.sizes);
  return result;
}

Inspected inspected_with_options(const InspectArguments& arguments) {
  try {
    return inspected(arguments);
  } catch (const Error& error) {
    throw with_names(error, option_of);
  }
}

std::map<std::string, int> operators_of(const detail::GraphModule& module) {
  std::map<std::string, int> count;
  for (const GraphNode& node : module.nodes) ++count[std::string(exported_target(node))];
  return count;
}

std::vector<std::string> foreign_operators(const std::map<std::string, int>& operators) {
  std::vector<std::string> foreign;
  for (const auto& [target, count] : operators)
    if (target.starts_with("sluice.")) foreign.push_back(target);
  return foreign;
}

std::map<std::string, std::string> refusals(const detail::GraphOfModel& graph) {
  std::map<std::string, std::string> why;
  for (const detail::GraphOfModel* each : {&graph, graph.evaluation.get()}) {
    if (!each) continue;
    for (const GraphNode& node : each->graph.training.nodes)
      if (std::string refusal = detail::refusal_of(node, each->graph.training, {});
          !refusal.empty())
        why.emplace(node.target, std::move(refusal));
  }
  return why;
}

std::vector<std::string> refused_operators(const detail::GraphOfModel& graph,
                                           const std::map<std::string, int>& operators) {
  std::vector<std::string> refused = foreign_operators(operators);
  for (const auto& [target, why] : refusals(graph)) refused.push_back(target);
  return refused;
}

std::vector<std::string> without_rows(const std::map<std::string, int>& operators) {
  std::vector<std::string> missing;
  for (const auto& [target, count] : operators)
    if (detail::find_aten_row(target) && !detail::has_row(target)) missing.push_back(target);
  return missing;
}

// Writes a shape with the names of sizes that may vary, such as "float32[rows, source, 48]".
class SizesText {
 public:
  explicit SizesText(const Inspected& of) : of_(of) {
    const detail::GraphOfModel& graph = *of.graph;
    for (const detail::GraphFacts::Size& size : graph.graph.facts.sizes)
      names_[size.symbol] = size.name;
    names_[graph.rows_symbol] = "rows";
    names_[graph.length_symbol] = "length";
    const std::vector<detail::GraphValue>& values = graph.graph.training.values;
    for (std::size_t i = 0; i < values.size(); ++i)
      values_.emplace(graph.layers.value_names[i], &values[i]);
  }

  std::string operator()(const ValueSpec& value) const {
    std::vector<std::string> sizes;
    const auto found = values_.find(value.name);
    if (found != values_.end()) {
      for (const detail::SizeExpression& size : found->second->sizes) sizes.push_back(text(size));
    } else {
      for (const std::int64_t size : value.sizes)
        sizes.push_back(size == kMicrobatchRows     ? "rows"
                        : size == kMicrobatchLength ? "length"
                                                    : std::to_string(size));
    }
    return printable(value.dtype) + "[" + join(sizes, ", ") + "]";
  }

 private:
  std::string text(const detail::SizeExpression& size) const {
    std::set<std::string> symbols;
    size.add_symbols(symbols);
    for (const std::string& symbol : symbols)
      if (!names_.contains(symbol)) return std::to_string(size.at(of_.sizes));
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    const std::string written = size.text();
    std::string named;
    for (std::size_t i = 0; i < written.size();) {
      const std::size_t begin = i;
      while (i < written.size() && is_word(written[i])) ++i;
      if (i == begin) named += written[i++];
      const std::string word = written.substr(begin, i - begin);
      if (is_word(word.front())) named += symbols.contains(word) ? names_.at(word) : word;
    }
    return printable(named);
  }

  const Inspected& of_;
  std::map<std::string, std::string> names_;
  std::unordered_map<std::string, const detail::GraphValue*> values_;
};

Json values_json(const std::vector<ValueSpec>& values, const MicrobatchShape& shape) {
  Json list = Json::array();
  for (const ValueSpec& value : values)
    list.push_back(
        {{"name", value.name}, {"dtype", value.dtype}, {"sizes", Json(value.sizes_at(shape))}});
  return list;
}

// The values that stages would exchange if the model were cut after each layer.
std::vector<std::vector<ValueSpec>> crossing_of(const Inspected& of) {
  std::vector<LayerNames> layers;
  std::vector<int> cuts;
  std::map<std::string, ValueSpec> values;
  for (const LayerInfo& layer : of.spec.layers) {
    if (!layers.empty()) cuts.push_back(static_cast<int>(layers.size()));
    layers.push_back({layer.name, layer.reads, {}});
    for (const ValueSpec& value : layer.writes) {
      layers.back().writes.push_back(value.name);
      values.emplace(value.name, value);
    }
  }
  std::vector<std::string> everywhere = of.graph->layers.inputs;
  for (const LayerInfo& layer : of.spec.free_layers)
    for (const ValueSpec& value : layer.writes) everywhere.push_back(value.name);
  std::vector<std::vector<ValueSpec>> crossing;
  for (const auto& names :
       values_crossing_cuts(layers, cuts, everywhere, of.graph->layers.outputs)) {
    crossing.emplace_back();
    for (const std::string& name : names) crossing.back().push_back(values.at(name));
  }
  crossing.emplace_back();
  return crossing;
}

std::string role_name(LayerRole role) {
  switch (role) {
    case LayerRole::kEmbedding:
      return "embedding";
    case LayerRole::kBlock:
      return "block";
    case LayerRole::kNorm:
      return "norm";
    case LayerRole::kHead:
      return "head";
    default:
      return "other";
  }
}

// The outermost modules inside a layer, between which it can be cut.
std::vector<std::string> modules_inside(const detail::GraphModule& module,
                                        const detail::GraphLayer& layer) {
  std::vector<std::string> inside;
  for (const int i : layer.nodes) {
    for (const detail::ModuleCall& call : module.nodes[static_cast<std::size_t>(i)].modules) {
      if (!call.path.starts_with(layer.name + ".")) continue;
      if (std::find(inside.begin(), inside.end(), call.path) == inside.end())
        inside.push_back(call.path);
      break;
    }
  }
  return inside;
}

Json layers_json(const Inspected& of, const std::vector<LayerInfo>& layers,
                 const std::vector<detail::GraphLayer>& nodes) {
  Json list = Json::array();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerInfo& layer = layers[i];
    list.push_back({{"name", layer.name},
                    {"role", role_name(layer.role)},
                    {"class", layer.class_name},
                    {"modules", Json(layer.module_names())},
                    {"inside", Json(modules_inside(of.graph->graph.training, nodes[i]))},
                    {"nodes", static_cast<std::int64_t>(nodes[i].nodes.size())},
                    {"num_parameters", layer.num_parameters()},
                    {"forward_flops", layer.cost.forward_flops.at(of.shape)},
                    {"kept_bytes", layer.cost.after_forward.at(of.shape)},
                    {"reads", Json(layer.reads)},
                    {"writes", values_json(layer.writes, of.shape)}});
  }
  return list;
}

Json inspect_json(const Inspected& of) {
  const detail::ExportedGraph& graph = of.graph->graph;
  const auto operators = operators_of(graph.training);
  Json facts;
  for (const detail::GraphFacts::Size& size : graph.facts.sizes)
    facts[size.name] = {{"symbol", size.symbol}, {"example", size.example}};
  const std::vector<std::vector<ValueSpec>> values = crossing_of(of);
  Json crossing = Json::array();
  for (std::size_t i = 0; i + 1 < of.spec.layers.size(); ++i)
    crossing.push_back(
        {{"behind", of.spec.layers[i].name}, {"values", values_json(values[i], of.shape)}});
  return {{"path", graph.path},
          {"torch", graph.torch_version},
          {"checked", graph.facts.checked},
          {"has_weights", detail::has_weights(graph)},
          {"evaluation", of.graph->evaluation ? "another graph" : "the same graph"},
          {"loss", {{"output", of.graph->loss.output}, {"count", of.graph->loss.count}}},
          {"sizes", facts.is_null() ? Json::object() : facts},
          {"microbatch", {{"rows", of.shape.rows}, {"length", of.shape.length}}},
          {"num_parameters", of.spec.num_parameters()},
          {"inputs", values_json(of.spec.inputs, of.shape)},
          {"outputs", Json(of.graph->layers.outputs)},
          {"layers", layers_json(of, of.spec.layers, of.graph->layers.layers)},
          {"free_layers", layers_json(of, of.spec.free_layers, of.graph->layers.free)},
          {"crossing", crossing},
          {"operators", Json(operators)},
          {"without_cost", Json(without_rows(operators))},
          {"refused", Json(refused_operators(*of.graph, operators))},
          {"notes", Json(graph.facts.notes)}};
}

std::string loss_text(const Inspected& of) {
  const detail::GraphLoss& loss = of.graph->loss;
  if (!loss.output.empty())
    return formatted("  loss   {}{}\n", loss.is_causal() ? "causal, of " : "",
                     printable(loss.output));
  std::vector<std::string> results;
  for (const detail::GraphOutput& output : of.graph->graph.training.outputs)
    if (output.kind == detail::GraphOutput::Kind::kResult)
      results.push_back(printable(output.name));
  return formatted("  loss   not named: set model.loss_output to one of {}\n", join(results, ", "));
}

// For example "from 2 to 512, 7 as exported".
std::string limits_text(const detail::GraphModule& module, const detail::GraphFacts::Size& size) {
  std::string text = formatted("{} as exported", size.example);
  for (const detail::SizeRange& range : module.ranges)
    if (range.symbol == size.symbol)
      text = formatted("from {}{}, {}", range.least,
                       range.most == INT64_MAX ? "" : formatted(" to {}", range.most), text);
  return text;
}

// Print the archive's text with printable(), because the archive is untrusted.
std::string inspect_text(const Inspected& of) {
  const detail::ExportedGraph& graph = of.graph->graph;
  const auto operators = operators_of(graph.training);
  const SizesText sizes_text(of);
  std::string text =
      formatted("{}: {}, {} parameters, exported by torch {}; weights: {}; checked: {}\n",
                printable(graph.path),
                counted(static_cast<std::int64_t>(graph.training.nodes.size()), "node"),
                with_commas(of.spec.num_parameters()),
                graph.torch_version.empty() ? "?" : printable(graph.torch_version),
                detail::has_weights(graph) ? "in the archive" : "not in the archive",
                graph.facts.checked.empty() ? "not said" : printable(graph.facts.checked));
  for (const ValueSpec& input : of.spec.inputs)
    text += formatted("  input  {} {}\n", printable(input.name), sizes_text(input));
  for (const detail::GraphFacts::Size& size : graph.facts.sizes)
    text += formatted("  size   {} {}\n", printable(size.name), limits_text(graph.training, size));
  text += loss_text(of);
  if (of.graph->evaluation)
    text += formatted(
        "  evaluation is another graph, of {}\n",
        counted(static_cast<std::int64_t>(of.graph->evaluation->graph.training.nodes.size()),
                "node"));
  text += "layers:\n";
  const std::vector<std::vector<ValueSpec>> values = crossing_of(of);
  for (std::size_t i = 0; i < of.spec.layers.size(); ++i) {
    const LayerInfo& layer = of.spec.layers[i];
    std::vector<std::string> crossing;
    for (const ValueSpec& value : values[i])
      crossing.push_back(printable(value.name) + " " + sizes_text(value));
    text += formatted(
        "  {}  {}  {}, {} parameters{}\n", printable(layer.name), role_name(layer.role),
        counted(static_cast<std::int64_t>(of.graph->layers.layers[i].nodes.size()), "node"),
        with_commas(layer.num_parameters()),
        crossing.empty() ? "" : "; a cut after it sends: " + join(crossing, ", "));
  }
  if (!of.spec.free_layers.empty()) text += "free layers, on every stage that reads them:\n";
  for (std::size_t i = 0; i < of.spec.free_layers.size(); ++i)
    text += formatted(
        "  {}  {}\n", printable(of.spec.free_layers[i].name),
        counted(static_cast<std::int64_t>(of.graph->layers.free[i].nodes.size()), "node"));
  if (const auto& unread = of.graph->layers.layers.back().unread; !unread.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : unread) names.push_back(printable(name));
    text += "not needed for the results above, and not trained: " + join(names, ", ") + "\n";
  }
  text += formatted("{}\n", counted(static_cast<std::int64_t>(operators.size()), "operator"));
  for (const std::string& target : without_rows(operators))
    text +=
        formatted("  no known cost: {} (counted as a pass over its tensors)\n", printable(target));
  for (const std::string& target : foreign_operators(operators))
    text += formatted("  not LibTorch's: {} (a C++ program has to give it to load_graph)\n",
                      printable(target));
  for (const auto& [target, why] : refusals(*of.graph))
    text += "  refused: " + printable(why) + "\n";
  for (const std::string& note : graph.facts.notes) text += "note: " + printable(note) + "\n";
  return text;
}

}  // namespace

Command graph_command() {
  const auto a = std::make_shared<InspectArguments>();
  const Command inspect = {
      .name = "inspect",
      .help =
          "Shows a graph's layers, the values that cross each cut, its operators and what is "
          "refused.",
      .options = {required({.names = "FILE",
                            .value = &a->file,
                            .help = "an exported graph (model.pt2)",
                            .if_empty = "the file has no name",
                            .empty_remedy = "name a model.pt2"}),
                  {"--layer-class", &a->layer_class,
                   "class of the repeated blocks; default: the elements of module lists"},
                  {"--loss-output", &a->loss_output,
                   "the result that is the loss, if the archive does not name it"},
                  {.names = "--rows",
                   .value = &a->rows,
                   .help = "rows of a microbatch; default: as exported",
                   .min = 1},
                  {.names = "--length",
                   .value = &a->length,
                   .help = "length of its rows; default: as exported",
                   .min = 1},
                  {"--sizes", &a->sizes,
                   "other sizes by name: decoder_length=64,patches=9; default: as exported"},
                  {"--json", &a->json, "as JSON"}},
      .run = [a] {
        return at_command("graph inspect", [&] {
          const Inspected graph = inspected_with_options(*a);
          errno = 0;
          a->json ? print_exact(inspect_json(graph).dump() + "\n") : print(inspect_text(graph));
          finish_stdout();
          return 0;
        });
      }};
  const Command tool = {
      .name = "tool",
      .help = "Prints the Python tool that exports a graph: sluice graph tool > sluice_export.py",
      .options = {},
      .run = [] {
        errno = 0;
        print_exact(kExportTool);
        finish_stdout();
        return 0;
      }};
  return {.name = "graph",
          .help = "Inspects exported graphs (docs/any-model.md).",
          .commands = {inspect, tool}};
}

}  // namespace sluice
