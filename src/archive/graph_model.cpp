#include "archive/graph_model.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "archive/allowed_nodes.h"
#include "archive/graph_kind.h"
#include "archive/graph_rewrites.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "base/saturate.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "family/aten_operators.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using InputKind = GraphInput::Kind;

const GraphValue& value_of(const GraphModule& module, int value) {
  return module.values[static_cast<std::size_t>(value)];
}

std::vector<const GraphInput*> batch_inputs(const GraphModule& module) {
  std::vector<const GraphInput*> inputs;
  for (const GraphInput& input : module.inputs)
    if (input.kind == InputKind::kBatch && input.value >= 0 &&
        value_of(module, input.value).kind == GraphValue::Kind::kTensor)
      inputs.push_back(&input);
  return inputs;
}

std::string class_without_module(const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  return last.empty() ? "exported graph" : last;
}

std::string symbol_named(const GraphFacts& facts, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    for (const GraphFacts::Size& size : facts.sizes)
      if (size.name == name) return size.symbol;
  return {};
}

std::string symbol_at(const GraphModule& module, const GraphInput& input, std::size_t dimension) {
  const auto& sizes = value_of(module, input.value).sizes;
  return dimension < sizes.size() ? sizes[dimension].symbol().value_or("") : "";
}

int value_of_result(const GraphModule& module, const std::string& name) {
  for (const GraphOutput& output : module.outputs)
    if (output.name == name && output.value.kind == GraphArgument::Kind::kValue)
      return output.value.value;
  return -1;
}

std::vector<std::string> tensor_results(const GraphModule& module) {
  std::vector<std::string> names;
  for (const GraphOutput& output : module.outputs) {
    const bool is_value = output.kind == GraphOutput::Kind::kResult &&
                          output.value.kind == GraphArgument::Kind::kValue;
    if (is_value && value_of(module, output.value.value).kind == GraphValue::Kind::kTensor)
      names.push_back(output.name);
  }
  return names;
}

bool is_causal_loss(const GraphModule& module, const std::string& name) {
  const int value = value_of_result(module, name);
  return value >= 0 && value_of(module, value).sizes.size() == 3;
}

GraphLoss loss_of(const ExportedGraph& graph, const GraphOptions& options) {
  const std::string& asked = options.loss_output;
  std::vector<std::string> results;
  for (const GraphOutput& output : graph.training.outputs)
    if (output.kind == GraphOutput::Kind::kResult) results.push_back(output.name);
  GraphLoss loss{.output = asked, .count = {}, .is_sum = false};
  const GraphFacts& facts = graph.facts;
  if (asked.empty()) {
    const bool has_logits = std::find(results.begin(), results.end(), "logits") != results.end();
    loss.output = !facts.loss_output.empty() || !has_logits ? facts.loss_output : "logits";
    const bool is_known = !loss.output.empty() &&
                          (loss.output != "logits" || is_causal_loss(graph.training, loss.output));
    if (!is_known && !options.needs_loss) return {};
    if (loss.output.empty()) {
      throw Error(
          ErrorKind::kUsage,
          {.what = "the graph names no result as its loss, and none is called 'logits'",
           .where = "`loss_output`",
           .remedy = results.empty() ? "export a model that returns a loss"
                                     : "set `loss_output` to one of its results, such as '" +
                                           results.front() + "'"});
    }
  }
  if (std::find(results.begin(), results.end(), loss.output) == results.end()) {
    throw Error(ErrorKind::kUsage, {.what = "the graph has no result '" + loss.output + "'",
                                    .where = "`loss_output`",
                                    .remedy = suggest_name(loss.output, results)});
  }
  if (loss.output == facts.loss_output) {
    loss.count = facts.loss_count;
    loss.is_sum = facts.loss_is_sum;
  }
  return loss;
}

[[noreturn]] void refuse_size(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "`graph_sizes`", .remedy = remedy});
}

CallValue plain_value(const GraphArgument& argument, const GraphModule& module,
                      const SymbolValues& at) {
  using A = GraphArgument::Kind;
  switch (argument.kind) {
    case A::kInt:
      return argument.integer;
    case A::kBool:
      return argument.integer != 0;
    case A::kFloat:
      return argument.real;
    case A::kString:
    case A::kDtype:
    case A::kLayout:
    case A::kDevice:
    case A::kMemoryFormat:
      return argument.text;
    case A::kValue: {
      const GraphValue& value = value_of(module, argument.value);
      if (value.number) return value.number->at(at);
      return std::monostate();
    }
    case A::kList: {
      std::vector<std::int64_t> numbers;
      for (const GraphArgument& each : argument.list) {
        const CallValue one = plain_value(each, module, at);
        if (const auto* number = std::get_if<std::int64_t>(&one)) numbers.push_back(*number);
      }
      return numbers;
    }
    default:
      return std::monostate();
  }
}

class Calls {
 public:
  Calls(const GraphOfModel& model, const SymbolValues& at, Precision precision)
      : precision_(std::move(precision)),
        model_(model),
        module_(model.graph.training),
        layers_(model.layers),
        at_(at),
        free_(free_values(module_, layers_)) {}

  LayerOperators of(const GraphLayer& layer, const LayerInfo& info) {
    std::map<int, std::string> weights;
    for (const GraphUse& use : layer.parameters) {
      const bool inside = use.name.starts_with(info.name + ".");
      weights[use.value] = inside ? use.name.substr(info.name.size() + 1) : use.name;
    }
    std::vector<OperatorCall> calls;
    for (const int i : layer.nodes) {
      const GraphNode& node = module_.nodes[static_cast<std::size_t>(i)];
      OperatorCall call{.target = std::string(exported_target(node))};
      call.without_gradient = node.grad_mode == GraphNode::GradMode::kOff;
      for (const auto& [name, argument] : node.arguments) {
        std::vector<CallTensor> tensors;
        add_tensors(argument, weights, tensors);
        if (!tensors.empty())
          call.tensors.emplace_back(name, std::move(tensors));
        else
          call.values.emplace_back(name, plain_value(argument, module_, at_));
      }
      for (const GraphNode::Result& result : node.results)
        for (const int value : result.values)
          if (value >= 0 && is_tensor(value)) call.results.push_back(tensor_of(value));
      calls.push_back(std::move(call));
    }
    const std::vector<std::string> leaving = end(layer, calls);
    LayerOperators operators = operators_of(calls, leaving, precision_);
    keep_types(layer, calls);
    return operators;
  }

  // Autocast may have changed the dtype.
  std::string type_of(int value) const {
    const auto type = types_.find(value);
    return type != types_.end() ? type->second : value_of(module_, value).dtype;
  }

 private:
  bool is_tensor(int value) const {
    return value_of(module_, value).kind == GraphValue::Kind::kTensor;
  }

  CallTensor tensor_of(int value) const {
    const GraphValue& of = value_of(module_, value);
    CallTensor tensor;
    tensor.name = layers_.value_names[static_cast<std::size_t>(value)];
    tensor.dtype = of.dtype;
    for (const SizeExpression& size : of.sizes) tensor.sizes.push_back(size.at(at_));
    return tensor;
  }

  void add_tensors(const GraphArgument& argument, const std::map<int, std::string>& weights,
                   std::vector<CallTensor>& to) const {
    for (const GraphArgument& each : argument.list) add_tensors(each, weights, to);
    if (argument.kind != GraphArgument::Kind::kValue || !is_tensor(argument.value)) return;
    CallTensor tensor = tensor_of(argument.value);
    tensor.is_free = free_.contains(argument.value);
    tensor.dtype = type_of(argument.value);
    const auto weight = weights.find(argument.value);
    if (weight != weights.end()) tensor.weight = weight->second, tensor.is_free = false;
    to.push_back(std::move(tensor));
  }

  // Values that leave the layer become contiguous for the transfer. The layer with the logits
  // computes the causal loss.
  std::vector<std::string> end(const GraphLayer& layer, std::vector<OperatorCall>& calls) const {
    std::vector<std::string> leaving;
    for (const int value : layer.writes) {
      const CallTensor tensor = tensor_of(value);
      if (model_.loss.is_causal() && tensor.name == model_.loss.output &&
          tensor.sizes.size() == 3) {
        add_causal_loss(tensor, calls);
        leaving.push_back(calls.back().results.front().name);
        continue;
      }
      OperatorCall whole{.target = "aten.contiguous.default"};
      whole.tensors = {{"self", {tensor}}};
      whole.results = {named(tensor.name + " that leaves", tensor.dtype, tensor.sizes)};
      leaving.push_back(whole.results.front().name);
      calls.push_back(std::move(whole));
    }
    return leaving;
  }

  static CallTensor named(std::string name, std::string dtype, std::vector<std::int64_t> sizes) {
    CallTensor tensor;
    tensor.name = std::move(name);
    tensor.dtype = std::move(dtype);
    tensor.sizes = std::move(sizes);
    return tensor;
  }

  // Adds the calls of causal_lm_loss(). Targets are the shifted labels.
  static void add_causal_loss(const CallTensor& logits, std::vector<OperatorCall>& calls) {
    const std::int64_t tokens = saturating_multiply(logits.sizes[0], logits.sizes[1]);
    const std::vector<std::int64_t> flat = {tokens, logits.sizes[2]};
    OperatorCall rows{.target = "aten.flatten.using_ints"};
    rows.tensors = {{"self", {logits}}};
    rows.values = {{"start_dim", std::int64_t{0}}, {"end_dim", std::int64_t{1}}};
    rows.results = {named(logits.name + " by tokens", logits.dtype, flat)};
    OperatorCall wide{.target = "aten.to.dtype"};
    wide.tensors = {{"self", {rows.results.front()}}};
    wide.values = {{"dtype", std::string("float32")}};
    wide.results = {named(logits.name + " in float32", "float32", flat)};
    OperatorCall loss{.target = "aten.cross_entropy_loss.default"};
    loss.tensors = {{"self", {wide.results.front()}},
                    {"target", {named("targets", "int64", {tokens})}}};
    loss.results = {named("loss of " + logits.name, "float32", {})};
    for (OperatorCall* call : {&rows, &wide, &loss}) calls.push_back(std::move(*call));
  }

  void keep_types(const GraphLayer& layer, const std::vector<OperatorCall>& settled) {
    std::size_t k = 0;
    for (const int i : layer.nodes) {
      std::size_t r = 0;
      for (const GraphNode::Result& result : module_.nodes[static_cast<std::size_t>(i)].results)
        for (const int value : result.values)
          if (value >= 0 && is_tensor(value)) {
            const CallTensor& made = settled[k].results[r++];
            if (made.dtype != value_of(module_, value).dtype) types_[value] = made.dtype;
          }
      ++k;
    }
  }

  const Precision precision_;
  const GraphOfModel& model_;
  const GraphModule& module_;
  const GraphLayers& layers_;
  const SymbolValues& at_;
  const std::set<int> free_;
  std::map<int, std::string> types_;  // by value; differ under autocast
};

// Some layer must compute the loss, which must be one number or logits.
void require_loss(const GraphOfModel& model) {
  const int loss = value_of_result(model.graph.training, model.loss.output);
  const bool is_made = std::any_of(
      model.layers.layers.begin(), model.layers.layers.end(), [loss](const GraphLayer& layer) {
        return std::find(layer.writes.begin(), layer.writes.end(), loss) != layer.writes.end();
      });
  if (!is_made) {
    throw Error(ErrorKind::kUsage, {.what = "the loss '" + model.loss.output +
                                            "' of the graph depends on no parameter",
                                    .where = "`loss_output`",
                                    .remedy = "name another of its results"});
  }
  const std::vector<SizeExpression>& sizes = value_of(model.graph.training, loss).sizes;
  const bool is_number = std::all_of(sizes.begin(), sizes.end(), [](const SizeExpression& size) {
    return size == SizeExpression(1);
  });
  if (model.loss.is_causal() ? sizes.size() == 3 : is_number) return;
  std::vector<std::string> texts;
  for (const SizeExpression& size : sizes) {
    const std::string symbol = size.symbol().value_or("");
    const bool is_rows = !symbol.empty() && symbol == model.rows_symbol;
    const bool is_length = !symbol.empty() && symbol == model.length_symbol;
    texts.push_back(is_rows ? "rows" : is_length ? "length" : size.text());
  }
  throw Error(
      ErrorKind::kUsage,
      {.what = formatted(
           "the result '{}' of the graph is [{}], {}", model.loss.output, join(texts, ", "),
           model.loss.is_causal() ? "but a causal loss needs [rows, length, vocabulary]"
                                  : "but a loss is one number"),
       .where = "`loss_output`",
       .remedy = "set `loss_output` to another result, or export a model that returns its loss"});
}

ExportedGraph evaluation_of(ExportedGraph& graph) {
  ExportedGraph other;
  other.path = graph.path;
  other.torch_version = graph.torch_version;
  other.tensors = graph.tensors;
  other.facts = graph.facts;
  other.training = std::move(*std::exchange(graph.evaluation, std::nullopt));
  return other;
}

std::shared_ptr<GraphOfModel> graph_with_layers(ExportedGraph graph, const GraphOptions& options) {
  auto model = std::make_shared<GraphOfModel>();
  model->loss = loss_of(graph, options);
  const bool has_loss = !model->loss.output.empty();
  std::vector<std::string> wanted =
      has_loss ? std::vector<std::string>{model->loss.output} : tensor_results(graph.training);
  if (!model->loss.count.empty()) wanted.push_back(model->loss.count);
  model->graph = std::move(graph);
  split_parameter_uses(model->graph.training);
  const GraphModule& module = model->graph.training;
  const GraphFacts& facts = model->graph.facts;
  model->rows_symbol = symbol_named(facts, {"rows", "batch"});
  model->length_symbol = symbol_named(facts, {"length", "seq_len"});
  const std::vector<const GraphInput*> inputs = batch_inputs(module);
  if (model->rows_symbol.empty() && !inputs.empty())
    model->rows_symbol = symbol_at(module, *inputs.front(), 0);
  if (model->length_symbol.empty())
    for (const GraphInput* input : inputs)
      if (input->name == "input_ids") model->length_symbol = symbol_at(module, *input, 1);
  model->layers = layers_of(model->graph, module, options.cuts, wanted);
  use_math_attention_for_layer_masks(model->graph.training, model->layers);
  const bool has_parameters =
      std::any_of(module.inputs.begin(), module.inputs.end(),
                  [](const GraphInput& input) { return input.kind == InputKind::kParameter; });
  if (model->layers.layers.empty() && !(has_loss && has_parameters)) {
    throw Error(ErrorKind::kInput,
                {.what = "the graph has no layer: nothing in it depends on a parameter",
                 .where = model->graph.path,
                 .remedy = "export a model that has parameters"});
  }
  if (has_loss) require_loss(*model);
  return model;
}

}  // namespace

std::shared_ptr<const GraphOfModel> graph_of_model(ExportedGraph graph,
                                                   const GraphOptions& options) {
  if (!options.allows_refused) require_allowed_nodes(graph, options.operators);
  std::shared_ptr<GraphOfModel> evaluation;
  if (graph.evaluation) {
    // Do this before the training model takes over `graph`.
    evaluation = graph_with_layers(evaluation_of(graph), options);
    evaluation->is_evaluation = true;
    // Only checkpoints, which use the training graph, need unread parameters.
    // evaluation_partition() would reject one that another rank has.
    for (GraphLayer& layer : evaluation->layers.layers) layer.unread.clear();
  }
  const std::shared_ptr<GraphOfModel> model = graph_with_layers(std::move(graph), options);
  model->evaluation = std::move(evaluation);
  return model;
}

MicrobatchShape exported_shape(const GraphOfModel& model) {
  MicrobatchShape shape{1, 16};
  for (const GraphFacts::Size& size : model.graph.facts.sizes) {
    if (size.symbol == model.rows_symbol) shape.rows = size.example;
    if (size.symbol == model.length_symbol) shape.length = size.example;
  }
  for (const SizeRange& range : model.graph.training.ranges) {
    if (range.symbol == model.rows_symbol)
      shape.rows = std::min(std::max(shape.rows, range.least), range.most);
    if (range.symbol == model.length_symbol)
      shape.length = std::min(std::max(shape.length, range.least), range.most);
  }
  return shape;
}

bool has_weights(const ExportedGraph& graph) {
  return std::any_of(graph.tensors.begin(), graph.tensors.end(), [](const GraphTensor& tensor) {
    return tensor.is_parameter && tensor.bytes > 0;
  });
}

std::map<std::string, std::int64_t> sizes_by_name(const std::vector<std::string>& texts) {
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const char* begin = equals == std::string::npos ? end : text.data() + equals + 1;
    const auto [rest, error] = std::from_chars(begin, end, number);
    if (equals == 0 || error != std::errc() || rest != end || number < 0)
      refuse_size(formatted("'{}' is not a size", text),
                  "write NAME=NUMBER, such as decoder_length=64");
    const std::string name = text.substr(0, equals);
    if (!sizes.emplace(name, number).second)
      refuse_size(formatted("the size '{}' is given twice", name), "give each size once");
  }
  return sizes;
}

SymbolValues sizes_of(const GraphOfModel& model, const MicrobatchShape& shape,
                      const std::map<std::string, std::int64_t>& others) {
  SymbolValues values;
  const GraphFacts& facts = model.graph.facts;
  const auto is_of_shape = [&](const std::string& symbol) {
    return symbol == model.rows_symbol || symbol == model.length_symbol;
  };
  std::map<std::string, std::string> names;
  std::vector<std::string> known;
  for (const GraphFacts::Size& size : facts.sizes) {
    if (!is_of_shape(size.symbol)) known.push_back(size.name);
    names.emplace(size.symbol, size.name);
    values[size.symbol] = size.example;
  }
  for (const auto& [name, number] : others) {
    const auto size =
        std::find_if(facts.sizes.begin(), facts.sizes.end(),
                     [&wanted = name](const auto& each) { return each.name == wanted; });
    if (size == facts.sizes.end()) {
      refuse_size(formatted("the graph has no size '{}'", name),
                  known.empty() ? "leave it out: the graph has only rows and length"
                                : suggest_name(name, known));
    }
    if (is_of_shape(size->symbol)) {
      const bool is_rows = size->symbol == model.rows_symbol;
      refuse_size(formatted("the size '{}' of the graph is that of {}", name,
                            is_rows ? "a microbatch" : "its sequences"),
                  is_rows ? "set `microbatch_size`" : "set `seq_len`");
    }
    values[size->symbol] = number;
  }
  if (!model.rows_symbol.empty()) values[model.rows_symbol] = shape.rows;
  if (!model.length_symbol.empty()) values[model.length_symbol] = shape.length;
  for (const SizeRange& range : model.graph.training.ranges) {
    const auto [found, added] =
        values.emplace(range.symbol, std::max<std::int64_t>(range.least, 2));
    if (added || (found->second >= range.least && found->second <= range.most)) continue;
    const bool is_rows = range.symbol == model.rows_symbol;
    const bool is_length = range.symbol == model.length_symbol;
    const std::string name = names[range.symbol];
    if (!is_rows && !is_length && !others.contains(name)) continue;
    throw Error(ErrorKind::kUsage,
                {.what = formatted("the graph was exported for {} from {} to {}, not for {}",
                                   is_rows     ? "microbatches"
                                   : is_length ? "sequences"
                                               : name,
                                   range.least,
                                   range.most == INT64_MAX ? std::string("any number")
                                                           : std::to_string(range.most),
                                   found->second),
                 .where = is_rows     ? "`microbatch_size`"
                          : is_length ? "`seq_len`"
                                      : "`graph_sizes`",
                 .remedy = "choose another number, or export the model again with other sizes"});
  }
  return values;
}

namespace {

// A value's gradient exists from the backward of its last reader until the backward of its writer.
void count_waiting_gradients(std::vector<LayerInfo>& layers, const MicrobatchShape& shape) {
  std::map<std::string, std::size_t> last_reader;
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const std::string& name : layers[i].reads) last_reader[name] = i;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const ValueSpec& value : layers[i].writes) {
      const auto last = last_reader.find(value.name);
      if (last == last_reader.end() || value.dtype.find("float") == std::string::npos) continue;
      for (std::size_t k = i; k < last->second; ++k)
        layers[k].waiting_gradients.constant += value.bytes_at(shape);
    }
  }
}

}  // namespace

ModelSpec describe_graph(std::shared_ptr<const GraphOfModel> of, const GraphOptions& options,
                         const MicrobatchShape& shape) {
  const GraphOfModel& model = *of;
  const ExportedGraph& graph = model.graph;
  const GraphModule& module = graph.training;
  const GraphLayers& layers = model.layers;
  const SymbolValues at = sizes_of(model, shape, options.sizes);
  Precision precision{.parameters = graph.facts.dtype.empty() ? "float32" : graph.facts.dtype,
                      .products = options.products,
                      .fused = false};

  ModelSpec spec;
  if (model.evaluation)
    spec.evaluation =
        std::make_shared<const ModelSpec>(describe_graph(model.evaluation, options, shape));
  spec.dtype = precision.parameters;
  spec.config_text = graph.facts.config;
  if (!spec.config_text.empty()) {
    const Json config = parse_strict_json(spec.config_text, graph.path);
    if (config.at("model_type").is_string()) spec.family = config.at("model_type").text();
    const Json& text = config.contains("text_config") ? config.at("text_config") : config;
    if (text.at("vocab_size").is_number_integer())
      spec.vocab_size = text.at("vocab_size").integer();
  }
  if (spec.family.empty()) spec.family = class_without_module(graph.facts.class_name);
  for (const SizeRange& range : module.ranges)
    if (range.symbol == model.length_symbol && range.most < INT32_MAX)
      spec.max_positions = range.most;

  const auto value_spec = [&](int value) {
    ValueSpec described;
    described.name = layers.value_names[static_cast<std::size_t>(value)];
    described.dtype = value_of(module, value).dtype;
    for (const SizeExpression& size : value_of(module, value).sizes) {
      const std::optional<std::string> symbol = size.symbol();
      if (symbol && *symbol == model.rows_symbol)
        described.sizes.push_back(kMicrobatchRows);
      else if (symbol && *symbol == model.length_symbol)
        described.sizes.push_back(kMicrobatchLength);
      else
        described.sizes.push_back(size.at(at));
    }
    return described;
  };
  for (const GraphInput* input : batch_inputs(module))
    spec.inputs.push_back(value_spec(input->value));
  const auto has_input = [&](std::string_view name) {
    return std::any_of(spec.inputs.begin(), spec.inputs.end(),
                       [&](const ValueSpec& input) { return input.name == name; });
  };
  if (model.loss.is_causal() && !has_input("labels"))
    spec.inputs.push_back({"labels", {kMicrobatchRows, kMicrobatchLength}, "int64"});

  std::unordered_map<std::string_view, const std::string*> stored;
  for (const auto& [own, name] : graph.facts.stored) stored.emplace(own, &name);
  const auto stored_as = [&](const std::string& name) {
    const auto found = stored.find(name);
    return found == stored.end() ? std::string() : *found->second;
  };
  std::unordered_map<std::string_view, const GraphTensor*> tensors;
  for (const GraphTensor& tensor : graph.tensors) tensors.emplace(tensor.name, &tensor);
  Calls calls(model, at, precision);
  const auto describe_layer = [&](const GraphLayer& layer) {
    LayerInfo info;
    info.name = layer.name;
    info.role = layer.role;
    info.modules = layer.modules;
    info.class_name = layer.class_name;
    info.undivided = "a graph is cut between its nodes, not within them";
    info.parameters_known = true;
    for (const int value : layer.reads)
      info.reads.push_back(layers.value_names[static_cast<std::size_t>(value)]);
    for (const GraphUse& use : layer.parameters) {
      const GraphTensor* tensor = tensors.at(use.of);
      info.parameters.push_back({.name = use.name,
                                 .shape = tensor->sizes,
                                 .tied_to = use.tied_to,
                                 .dtype = tensor->dtype,
                                 .trainable = tensor->trainable,
                                 .stored_as = stored_as(use.name)});
    }
    for (const std::string& name : layer.unread) {
      const GraphTensor* tensor = tensors.at(name);
      info.parameters.push_back({.name = name,
                                 .shape = tensor->sizes,
                                 .dtype = tensor->dtype,
                                 .trainable = false,
                                 .stored_as = stored_as(name)});
    }
    const auto operators = std::make_shared<const LayerOperators>(calls.of(layer, info));
    for (const int value : layer.writes) {
      info.writes.push_back(value_spec(value));
      info.writes.back().dtype = calls.type_of(value);
    }
    info.cost = cost_of(*operators);
    info.operators = operators;
    return info;
  };
  for (const GraphLayer& layer : layers.free) {
    LayerInfo info = describe_layer(layer);
    // Kept as long as other layers need it.
    double bytes = 0;
    for (const ValueSpec& value : info.writes) bytes += value.bytes_at(shape);
    info.cost = {};
    info.cost.after_forward.constant = bytes;
    info.operators = nullptr;
    spec.free_layers.push_back(std::move(info));
  }
  for (const GraphLayer& layer : layers.layers) spec.layers.push_back(describe_layer(layer));
  for (ValueSpec& input : spec.inputs) input.kept = true;
  count_waiting_gradients(spec.layers, shape);
  spec.source = graph_source(std::move(of), spec);
  return spec;
}

}  // namespace sluice::detail
