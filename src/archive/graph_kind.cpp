#include "archive/graph_kind.h"

#include <cstddef>
#include <utility>

#include "archive/graph_rows.h"
#include "base/format.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// Keys: the output that is the loss, the class of repeated blocks, and sizes as "NAME=NUMBER".
constexpr std::string_view kLossOutputKey = "loss_output", kLayerClassKey = "transformer_layer_cls",
                           kSizesKey = "graph_sizes";

std::vector<std::string> own_texts(const ModelRequest& request, std::string_view key) {
  const auto found = request.own.find(key);
  return found == request.own.end() ? std::vector<std::string>() : found->second;
}

std::string own_text(const ModelRequest& request, std::string_view key) {
  const std::vector<std::string> texts = own_texts(request, key);
  return texts.empty() ? std::string() : texts.front();
}

class GraphSource : public ModelSource {
 public:
  GraphSource(std::shared_ptr<const GraphOfModel> graph, const ModelSpec& model)
      : graph_(std::move(graph)), vocab_size_(model.vocab_size), inputs_(model.inputs) {}

  const std::shared_ptr<const GraphOfModel>& graph() const { return graph_; }

  const ModelKind& kind() const override { return graph_kind(); }
  RowNeeds row_needs() const override { return rows_of_graph(*graph_, vocab_size_); }
  std::vector<ValueSpec> inputs_of_text() const override {
    const RowNeeds needs = row_needs();
    if (!needs.tokens || !needs.fields.empty()) {
      throw Error(
          ErrorKind::kUsage,
          {.what = needs.tokens ? formatted("the graph also needs '{}', which a text does not have",
                                            needs.fields.front().name)
                                : "the rows of the graph are not texts",
           .where = graph_->graph.path,
           .remedy = "prompts are for models of text alone"});
    }
    std::vector<ValueSpec> inputs;
    for (const ValueSpec& input : inputs_) {
      if ((input.name == "attention_mask" && needs.takes_mask) ||
          (input.name == "position_ids" && needs.takes_positions))
        inputs.push_back(input);
    }
    return inputs;
  }
  std::vector<std::string> layers_of(const std::vector<std::string>& names,
                                     const std::vector<LayerInfo>& layers) const override {
    std::vector<std::string> found;
    for (const std::string& name : names) {
      std::vector<std::string> paths = modules_of_class(graph_->graph.training, name);
      if (paths.empty()) paths = {name};
      for (const std::string& path : paths) {
        const std::size_t before = found.size();
        for (const LayerInfo& layer : layers)
          if (layer.name == path || layer.name.starts_with(path + ".") ||
              layer.name.starts_with(path + "@"))
            found.push_back(layer.name);
        if (found.size() == before) found.push_back(path);
      }
    }
    return found;
  }
  std::vector<std::string> files() const override { return {graph_->graph.path}; }
  bool has_weights() const override { return detail::has_weights(graph_->graph); }
  std::vector<std::string> other_tensors() const override {
    std::vector<std::string> names;
    for (const GraphTensor& tensor : graph_->graph.tensors) names.push_back(tensor.name);
    return names;
  }

 private:
  std::shared_ptr<const GraphOfModel> graph_;
  std::int64_t vocab_size_;
  std::vector<ValueSpec> inputs_;
};

std::vector<std::string> named_modules(const ModelRequest& request, const GraphModule& graph) {
  std::vector<std::string> names = request.cuts;
  for (const std::string& name : request.recomputed) {
    const std::vector<std::string> of_class = modules_of_class(graph, name);
    if (of_class.empty())
      names.push_back(name);
    else
      names.insert(names.end(), of_class.begin(), of_class.end());
  }
  return names;
}

class GraphKind : public ModelKind {
 public:
  std::string_view key() const override { return "graph"; }
  std::string_view title() const override { return "an exported graph"; }
  std::vector<std::string_view> own_keys() const override {
    return {kLossOutputKey, kLayerClassKey, kSizesKey};
  }
  std::optional<std::string> refusal(ModelFeature feature) const override {
    switch (feature) {
      case ModelFeature::kConfigFile:
        return "the archive says what the model is";
      case ModelFeature::kNewAdapter:
      case ModelFeature::kStoredAdapter:
        return "adapters are for the native families";
      case ModelFeature::kPackedRows:
        return "a graph keeps no documents apart: write false";
      case ModelFeature::kZero3:
        return "write zero1 = true";
      case ModelFeature::kSlices:
        return "a graph is cut between its nodes, not within them: leave it out";
    }
    return std::nullopt;
  }
  ModelSpec read(const ModelRequest& request) const override {
    GraphOptions options;
    ExportedGraph graph = read_exported_graph(request.path);
    options.cuts.layer_class = own_text(request, kLayerClassKey);
    options.cuts.modules = named_modules(request, graph.training);
    options.loss_output = own_text(request, kLossOutputKey);
    options.sizes = sizes_by_name(own_texts(request, kSizesKey));
    options.products = request.precision.products;
    return describe_graph(graph_of_model(std::move(graph), options), options, request.microbatch);
  }
  std::string fixed_dtype(const ModelSpec& model) const override { return model.dtype; }
};

}  // namespace

const ModelKind& graph_kind() {
  static const GraphKind kind;
  return kind;
}

std::shared_ptr<const ModelSource> graph_source(std::shared_ptr<const GraphOfModel> graph,
                                                const ModelSpec& model) {
  return std::make_shared<const GraphSource>(std::move(graph), model);
}

const std::shared_ptr<const GraphOfModel>& graph_of(const ModelSpec& model) {
  return static_cast<const GraphSource&>(*model.source).graph();
}

}  // namespace sluice::detail
