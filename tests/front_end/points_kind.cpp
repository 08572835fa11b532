#include "front_end/points_kind.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/strict_json.h"
#include "config/run_config.h"
#include "model/model_maker.h"

namespace sluice::test {
namespace {

constexpr std::int64_t kInputs = 4;

Json read_points(const std::string& path) {
  const std::string file = std::filesystem::is_directory(path) ? path + "/config.json" : path;
  const auto json = parse_json(std::filesystem::exists(file) ? read_text(file, 1 << 20) : "");
  return json.value_or(Json::object());
}

class PointsSource : public ModelSource {
 public:
  const ModelKind& kind() const override;
  RowNeeds row_needs() const override {
    return {.tokens = false,
            .fields = {{.name = "x", .sizes = {kInputs}}, {.name = "y"}},
            .takes_mask = false,
            .takes_positions = false,
            .count = CountOf::kRows,
            .counts_by_model = true};
  }
};

LayerInfo linear_layer(const std::string& name, LayerRole role, const std::string& reads,
                       std::int64_t in, const std::string& writes, std::int64_t out) {
  LayerInfo layer{.name = name, .role = role, .reads = {reads}, .parameters_known = true};
  layer.parameters = {{name + ".weight", {out, in}}, {name + ".bias", {out}}};
  layer.writes = {{writes, {kMicrobatchRows, out}}};
  layer.class_name = "Linear";
  LayerCost& cost = layer.cost;
  cost.forward_flops.per_row = cost.input_flops.per_row = cost.weight_flops.per_row =
      2.0 * static_cast<double>(in * out);
  cost.after_forward.per_row = 8.0 * static_cast<double>(out);
  return layer;
}

class PointsKind : public ModelKind {
 public:
  std::string_view key() const override { return ""; }
  std::string_view title() const override { return "a model of points"; }
  bool claims(const std::string& path) const override {
    const Json json = read_points(path);
    const Json* const type = json.find("model_type");
    return type && type->is_string() && type->text() == "points";
  }
  std::optional<std::string> refusal(ModelFeature feature) const override {
    if (feature == ModelFeature::kNewAdapter || feature == ModelFeature::kStoredAdapter)
      return "points have few weights: train all of them";
    if (feature == ModelFeature::kPackedRows || feature == ModelFeature::kSlices)
      return "a point is not divided: leave it out";
    return std::nullopt;
  }
  ModelSpec read(const ModelRequest& request) const override {
    const Json config = read_points(request.path);
    const std::int64_t width = config.at("width").integer();
    ModelSpec spec{.family = "points", .dtype = "float32"};
    spec.inputs = {{"x", {kMicrobatchRows, kInputs}}, {"y", {kMicrobatchRows}}};
    spec.layers = {linear_layer("in", LayerRole::kEmbedding, "x", kInputs, "hidden", width)};
    for (std::int64_t i = 0; i < config.at("blocks").integer(); ++i)
      spec.layers.push_back(linear_layer("block." + std::to_string(i), LayerRole::kBlock, "hidden",
                                         width, "hidden", width));
    spec.layers.push_back(linear_layer("out", LayerRole::kHead, "hidden", width, "prediction", 1));
    spec.config_text = config.dump();
    spec.source = std::make_shared<const PointsSource>();
    return spec;
  }
};

const PointsKind kPoints;
const ModelKind& PointsSource::kind() const { return kPoints; }

std::int64_t num_targets(const Values& batch) {
  return batch["y"].ne(0).sum().item<std::int64_t>();
}

class PointsMaker : public ModelMaker {
 public:
  Model model(const ModelSpec& spec, const LayerOptions& /*options*/) const override {
    Model model{.inputs = {"x", "y"}, .outputs = {"prediction"}, .count = num_targets};
    for (const LayerInfo& info : spec.layers) {
      const auto sizes = info.parameters.front().shape;
      model.layers.push_back(layer(
          info.name, info.reads, {info.writes.front().name},
          [sizes] { return torch::nn::Linear(sizes[1], sizes[0]); },
          [reads = info.reads.front(), is_last = info.role == LayerRole::kHead](
              torch::nn::LinearImpl& linear, const Values& in) {
            return is_last ? linear.forward(in[reads]) : linear.forward(in[reads]).tanh();
          }));
    }
    model.loss = [](const Values& outputs, const Values& batch) {
      const at::Tensor error = outputs["prediction"].squeeze(1) - batch["y"];
      return LossValue{(error.square() * batch["y"].ne(0)).sum(), num_targets(batch)};
    };
    model.description = std::make_shared<const ModelSpec>(spec);
    return model;
  }
};

}  // namespace

KindTable kinds_with_points() {
  static const PointsMaker maker;
  static const KindRow table[] = {native_kinds()[0], {&kPoints, &maker}, native_kinds()[1]};
  return table;
}

}  // namespace sluice::test
