#include "model/graph_modules.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "archive/graph_kind.h"
#include "archive/graph_model.h"
#include "archive/graph_nodes.h"
#include "base/file.h"
#include "base/format.h"
#include "graph/check_rules.h"
#include "graph/dtypes.h"
#include "layer/unfilled.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using Names = std::vector<std::string>;
using InputKind = GraphInput::Kind;
using Graph = std::shared_ptr<const GraphOfModel>;

const GraphModule& module_of(const Graph& graph) { return graph->graph.training; }

const GraphInput& input_of(const GraphModule& module, int value) {
  return *std::find_if(module.inputs.begin(), module.inputs.end(),
                       [&](const GraphInput& input) { return input.value == value; });
}

at::ScalarType scalar_type_of(const std::string& dtype) {
  if (const auto type = scalar_type(dtype)) return *type;
  throw Error(ErrorKind::kInput, {.what = "torch has no type '" + dtype + "'",
                                  .remedy = "export the model again, with this release of torch"});
}

class GraphLayerModule final : public torch::nn::Module {
 public:
  explicit GraphLayerModule(std::string class_name) : Module(std::move(class_name)) {}

  void add_parameter(const std::string& full_name, at::Tensor value, bool trainable) {
    const auto [holder, name] = place_of(full_name);
    held_.push_back(holder->register_parameter(name, std::move(value), trainable));
  }
  void add_unread(const std::string& full_name, at::Tensor value) {
    const auto [holder, name] = place_of(full_name);
    holder->register_parameter(name, std::move(value), /*requires_grad=*/false);
  }
  void add_buffer(const std::string& full_name, at::Tensor value) {
    const auto [holder, name] = place_of(full_name);
    held_.push_back(holder->register_buffer(name, std::move(value)));
  }
  void add_constant(at::Tensor value) { held_.push_back(std::move(value)); }

  const std::vector<at::Tensor>& held() const { return held_; }

 private:
  // Finds the submodule that holds a parameter. Creates missing submodules.
  std::pair<Module*, std::string> place_of(const std::string& full_name) {
    Module* holder = this;
    std::size_t begin = 0;
    for (std::size_t dot; (dot = full_name.find('.', begin)) != std::string::npos;
         begin = dot + 1) {
      const std::string child = full_name.substr(begin, dot - begin);
      const auto children = holder->named_children();
      if (const auto* found = children.find(child)) {
        holder = found->get();
      } else {
        holder = holder->register_module(child, std::make_shared<Module>()).get();
      }
    }
    return {holder, full_name.substr(begin)};
  }

  std::vector<at::Tensor> held_;
};

std::vector<TensorMeta> written_metas(const GraphModule& module, const std::vector<int>& reads,
                                      const std::vector<int>& writes,
                                      const std::vector<at::ScalarType>& types,
                                      const std::vector<TensorMeta>& read) {
  SymbolValues at;
  for (std::size_t k = 0; k < reads.size(); ++k) {
    const auto& sizes = module.values[static_cast<std::size_t>(reads[k])].sizes;
    for (std::size_t d = 0; d < sizes.size() && d < read.at(k).sizes.size(); ++d)
      if (const auto symbol = sizes[d].symbol()) at.emplace(*symbol, read[k].sizes[d]);
  }
  std::vector<TensorMeta> metas;
  for (std::size_t k = 0; k < writes.size(); ++k) {
    const GraphValue& of = module.values[static_cast<std::size_t>(writes[k])];
    TensorMeta meta{{}, types[k]};
    for (const SizeExpression& size : of.sizes) meta.sizes.push_back(size.at(at));
    metas.push_back(std::move(meta));
  }
  return metas;
}

// Whether the sizes of a layer's outputs follow from those of its inputs.
bool can_infer_shapes(const GraphModule& module, const GraphLayer& layer) {
  std::set<std::string> told, needed;
  for (const int value : layer.reads)
    for (const SizeExpression& size : module.values[static_cast<std::size_t>(value)].sizes)
      if (const auto symbol = size.symbol()) told.insert(*symbol);
  for (const int value : layer.writes)
    for (const SizeExpression& size : module.values[static_cast<std::size_t>(value)].sizes)
      size.add_symbols(needed);
  return std::includes(told.begin(), told.end(), needed.begin(), needed.end());
}

[[noreturn]] void throw_not_of_evaluation(const ExportedGraph& graph) {
  throw Error(
      ErrorKind::kUsage,
      {.what = "a training layer is in evaluation mode, for which the model has another graph",
       .where = graph.path,
       .remedy = "evaluate by the Pipeline, which runs Model::evaluation"});
}

class LayerMaker {
 public:
  LayerMaker(Graph graph, const std::vector<GraphOperator>& operators)
      : graph_(std::move(graph)),
        operators_(operators),
        facts_(facts_of(module_of(graph_), operators)) {}

  LayerSpec make(const GraphLayer& layer, const LayerInfo& info) const {
    const GraphModule& module = module_of(graph_);
    LayerSpec spec;
    spec.name = layer.name;
    spec.prefix = "";
    spec.reads = info.reads;
    spec.writes.clear();
    for (const ValueSpec& value : info.writes) spec.writes.push_back(value.name);
    spec.role = layer.role;
    spec.class_name = layer.class_name;
    for (const GraphUse& use : layer.parameters)
      if (!use.tied_to.empty()) spec.ties.emplace_back(use.name, use.tied_to);
    spec.make = [graph = graph_, &layer, frozen = frozen_of(info)]() {
      return made(graph, layer, frozen);
    };
    spec.forward = [graph = graph_, program = program_of(layer), shared = places_of_shared(layer),
                    changed = places_of_changed(layer)](torch::nn::Module& own,
                                                        const std::vector<at::Tensor>& given) {
      if (graph->evaluation && !own.is_training()) throw_not_of_evaluation(graph->graph);
      const auto& held = own.as<GraphLayerModule>()->held();
      std::vector<at::Tensor> read = given;
      for (const std::size_t i : shared)
        if (read[i].requires_grad()) read[i] = at::alias(read[i]);
      for (const std::size_t i : changed) read[i] = read[i].clone();
      std::vector<at::Tensor> written =
          program->run(read, held, {.training = own.is_training() || graph->is_evaluation});
      for (at::Tensor& tensor : written) tensor = tensor.contiguous();
      return written;
    };
    if (can_infer_shapes(module, layer)) {
      std::vector<at::ScalarType> types;
      for (const ValueSpec& value : info.writes) types.push_back(scalar_type_of(value.dtype));
      spec.shapes = [graph = graph_, &layer, types](const std::vector<TensorMeta>& read) {
        return written_metas(module_of(graph), layer.reads, layer.writes, types, read);
      };
    }
    return spec;
  }

  // Returns a function that computes a value from the batch alone, or nullptr if impossible.
  std::function<at::Tensor(const Values&)> from_batch(const std::string& name) const {
    const GraphModule& module = module_of(graph_);
    const GraphLayers& layers = graph_->layers;
    const auto found = std::find(layers.value_names.begin(), layers.value_names.end(), name);
    const int value = static_cast<int>(found - layers.value_names.begin());
    std::set<int> needed = {value};
    std::vector<int> nodes, reads, held;
    for (int i = static_cast<int>(module.nodes.size()); i-- > 0;) {
      const GraphNode& node = module.nodes[static_cast<std::size_t>(i)];
      const std::vector<int> written = values_written(node);
      if (std::none_of(written.begin(), written.end(), [&](int v) { return needed.contains(v); }))
        continue;
      if (!layers.is_free[static_cast<std::size_t>(i)]) {
        const bool is_number = std::all_of(written.begin(), written.end(), [&](int v) {
          return module.values[static_cast<std::size_t>(v)].number.has_value();
        });
        if (!is_number) return nullptr;
        continue;
      }
      nodes.push_back(i);
      for (const int read : values_read(node)) needed.insert(read);
    }
    std::reverse(nodes.begin(), nodes.end());
    for (const GraphInput& input : module.inputs) {
      if (input.value < 0 || !needed.contains(input.value)) continue;
      if (input.kind == InputKind::kBatch)
        reads.push_back(input.value);
      else
        held.push_back(input.value);
    }
    auto program = std::make_shared<const GraphProgram>(
        module, nodes, reads, held, std::vector<int>{value}, operators_, facts_);
    std::vector<at::Tensor> constants;
    constants.reserve(held.size());
    for (const int each : held) constants.push_back(stored(graph_, input_of(module, each).name));
    Names names;
    names.reserve(reads.size());
    for (const int each : reads)
      names.push_back(layers.value_names[static_cast<std::size_t>(each)]);
    return [program, constants, names](const Values& batch) {
      std::vector<at::Tensor> read;
      for (const std::string& each : names) read.push_back(batch.get(each));
      return program->run(read, constants, {}).front();
    };
  }

 private:
  static at::Tensor stored(const Graph& graph, const std::string& name) {
    const GraphTensor* tensor = graph->graph.tensor(name);
    if (!tensor)
      throw Error(ErrorKind::kInput, {.what = "the archive has no tensor '" + name + "'",
                                      .where = graph->graph.path,
                                      .remedy = "export the model again"});
    return read_graph_tensor(graph->graph, *tensor);
  }

  static std::set<std::string> frozen_of(const LayerInfo& info) {
    std::set<std::string> frozen;
    for (const ParameterSpec& parameter : info.parameters)
      if (!parameter.trainable) frozen.insert(parameter.name);
    return frozen;
  }

  static std::shared_ptr<torch::nn::Module> made(const Graph& graph, const GraphLayer& layer,
                                                 const std::set<std::string>& frozen) {
    const GraphModule& module = module_of(graph);
    auto own = std::make_shared<GraphLayerModule>(layer.class_name.empty() ? layer.name
                                                                           : layer.class_name);
    for (const GraphUse& use : layer.parameters) {
      const GraphTensor& tensor = *graph->graph.tensor(use.of);
      const at::ScalarType dtype = scalar_type_of(tensor.dtype);
      own->add_parameter(use.name, unfilled(tensor.sizes, at::TensorOptions(dtype)),
                         !frozen.contains(use.name) && at::isFloatingType(dtype));
    }
    for (const std::string& name : layer.unread) {
      const GraphTensor& tensor = *graph->graph.tensor(name);
      own->add_unread(name,
                      unfilled(tensor.sizes, at::TensorOptions(scalar_type_of(tensor.dtype))));
    }
    for (const int value : layer.held) {
      const GraphInput& input = input_of(module, value);
      at::Tensor tensor = stored(graph, input.name);
      if (input.kind == InputKind::kBuffer && input.persistent)
        own->add_buffer(input.name, std::move(tensor));
      else
        own->add_constant(std::move(tensor));
    }
    return own;
  }

  // Gradients of inputs that several layers read are summed within each layer first, so that
  // recomputation and cuts do not change them.
  static std::vector<std::size_t> places_of_shared(const GraphLayer& layer) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < layer.reads.size(); ++i)
      if (std::find(layer.shared.begin(), layer.shared.end(), layer.reads[i]) != layer.shared.end())
        places.push_back(i);
    return places;
  }

  // Inputs that the layer changes in place are copied: the caller owns them and a layer may run
  // twice.
  std::vector<std::size_t> places_of_changed(const GraphLayer& layer) const {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < layer.reads.size(); ++i)
      if (graph_->layers.is_written[static_cast<std::size_t>(layer.reads[i])]) places.push_back(i);
    return places;
  }

  std::shared_ptr<const GraphProgram> program_of(const GraphLayer& layer) const {
    std::vector<int> held;
    for (const GraphUse& use : layer.parameters) held.push_back(use.value);
    held.insert(held.end(), layer.held.begin(), layer.held.end());
    return std::make_shared<const GraphProgram>(module_of(graph_), layer.nodes, layer.reads, held,
                                                layer.writes, operators_, facts_);
  }

  Graph graph_;
  const std::vector<GraphOperator>& operators_;
  const GraphModuleFacts facts_;
};

std::function<std::int64_t(const Values&)> count_of(const LayerMaker& maker,
                                                    const GraphOfModel& graph) {
  if (graph.loss.count.empty()) return [](const Values& batch) { return count_rows(batch); };
  auto count = maker.from_batch(graph.loss.count);
  if (!count) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("the count of the loss '{}', the result '{}', depends on more "
                                   "than the batch",
                                   graph.loss.output, graph.loss.count),
                 .where = graph.graph.path,
                 .remedy = "export the model with a count of its labels, or without: microbatches "
                           "then weigh by their rows"});
  }
  return [count](const Values& batch) {
    return count(batch.on_host()).to(at::kDouble).round().item().to<std::int64_t>();
  };
}

LossFunction loss_of(const GraphOfModel& graph,
                     const std::function<std::int64_t(const Values&)>& count) {
  return [output = graph.loss.output, is_sum = graph.loss.is_sum, count](const Values& outputs,
                                                                         const Values& batch) {
    LossValue value;
    const at::Tensor& loss = outputs.get(output);
    if (loss.numel() != 1) {
      throw Error(ErrorKind::kInput,
                  {.what = formatted("the loss '{}' of the graph is {}, not one number", output,
                                     to_text(meta_of(loss))),
                   .where = "`loss_output`",
                   .remedy = "name a result that is a number"});
    }
    value.count = count(batch);
    value.loss = loss.reshape({});
    if (!is_sum) value.loss = value.loss * static_cast<double>(value.count);
    return value;
  };
}

std::function<void(const std::string&, at::Tensor&)> stored_in(const Graph& graph) {
  std::map<std::string, std::string> tensor_of;
  for (const GraphLayer& layer : graph->layers.layers)
    for (const GraphUse& use : layer.parameters) tensor_of.emplace(use.name, use.of);
  return [graph, tensor_of](const std::string& name, at::Tensor& value) {
    const auto use = tensor_of.find(name);
    const GraphTensor* tensor = graph->graph.tensor(use == tensor_of.end() ? name : use->second);
    if (tensor && tensor->bytes > 0) value.copy_(read_graph_tensor(graph->graph, *tensor));
  };
}

}  // namespace

at::Tensor read_graph_tensor(const ExportedGraph& graph, const GraphTensor& tensor) {
  const at::ScalarType dtype = scalar_type_of(tensor.dtype);
  const auto size = static_cast<std::int64_t>(c10::elementSize(dtype));
  std::int64_t extent = 1;
  bool is_empty = false;
  for (std::size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d] == 0) is_empty = true;
    extent += (tensor.sizes[d] - 1) * tensor.strides[d];
  }
  if (is_empty) return at::empty(tensor.sizes, at::TensorOptions(dtype));
  const std::int64_t first = tensor.storage_offset * size;
  if (first < 0 || extent < 1 || extent > (tensor.bytes - first) / size) {
    throw Error(ErrorKind::kInput,
                {.what = "the archive has no bytes of '" + tensor.name + "'",
                 .where = graph.path,
                 .remedy = "name the weights in model.path, or export the model with --weights"});
  }
  at::Tensor flat = at::empty({extent}, at::TensorOptions(dtype));
  File::open(graph.path)
      .read(flat.mutable_data_ptr(), static_cast<std::size_t>(extent * size),
            static_cast<std::uint64_t>(tensor.offset + first));
  return flat.as_strided(tensor.sizes, tensor.strides, 0).clone(at::MemoryFormat::Contiguous);
}

Model graph_model(const ModelSpec& spec, const std::vector<GraphOperator>& operators) {
  const Graph& graph = graph_of(spec);
  const LayerMaker maker(graph, operators);
  Model model;
  for (std::size_t i = 0; i < spec.layers.size(); ++i)
    model.layers.push_back(maker.make(graph->layers.layers.at(i), spec.layers[i]));
  for (std::size_t i = 0; i < spec.free_layers.size(); ++i)
    model.free_layers.push_back(maker.make(graph->layers.free.at(i), spec.free_layers[i]));
  for (const ValueSpec& input : spec.inputs) model.inputs.push_back(input.name);
  model.outputs = graph->layers.outputs;
  std::function<std::int64_t(const Values&)> count;
  if (graph->loss.is_causal()) {
    model.loss = causal_lm_loss;
    count = [](const Values& batch) { return count_tokens(batch.on_host().get("labels")); };
  } else {
    count = count_of(maker, *graph);
    model.loss = loss_of(*graph, count);
  }
  // Checks sizes here, because every rank calls count() before each microbatch.
  model.count = [graph, count](const Values& batch) {
    InputSizes sizes;
    for (const auto& [name, tensor] : batch)
      if (tensor.defined()) sizes.emplace(name, tensor.sizes().vec());
    check_rules(module_of(graph), sizes);
    return count(batch);
  };
  if (has_weights(graph->graph)) model.initialization.tensor = stored_in(graph);
  model.initialization.remedy = "give model.path, or export the model with --weights";
  if (spec.evaluation)
    model.evaluation = std::make_shared<const Model>(graph_model(*spec.evaluation, operators));
  model.description = std::make_shared<const ModelSpec>(spec);
  return model;
}

}  // namespace sluice::detail

namespace sluice {

Model load_graph(const std::string& path, const GraphModelOptions& given) {
  detail::GraphOptions options{.cuts = {.layer_class = given.layer_class, .modules = given.modules},
                               .loss_output = given.loss_output,
                               .sizes = given.sizes,
                               .products = given.products};
  for (const GraphOperator& each : given.operators) options.operators.push_back(each.name);
  auto graph = detail::graph_of_model(detail::read_exported_graph(path), options);
  MicrobatchShape shape = detail::exported_shape(*graph);
  if (given.rows > 0) shape.rows = given.rows;
  if (given.length > 0) shape.length = given.length;
  return detail::graph_model(detail::describe_graph(std::move(graph), options, shape),
                             given.operators);
}

}  // namespace sluice
