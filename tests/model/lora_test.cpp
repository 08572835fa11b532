#include <gtest/gtest.h>

#include <cmath>

#include "io/adapter_directory.h"
#include "io/hf_shards.h"
#include "kind/adapter_files.h"
#include "model/low_rank.h"
#include "model/support.h"
#include "sluice/error.h"
#include "sluice/layer.h"
#include "sluice/lora.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::ChunkChain;
using testing::int_tensor;
using testing::kTolerance;
using testing::read_json;

std::string below_tests(const std::string& path) {
  return std::string(SLUICE_TEST_DATA) + "/" + path;
}

class HandMade : public AdaptableLinear {
 public:
  explicit HandMade(double scale, double dropout = 0) {
    adapt({.name = "x", .rank = 1, .in = 3, .out = 2, .alpha = 1}, scale, dropout, c10::kCPU);
    named_parameters()["lora_A.weight"].detach().copy_(at::tensor({1.f, -2.f, 3.f}).view({1, 3}));
    named_parameters()["lora_B.weight"].detach().copy_(at::tensor({5.f, -7.f}).view({2, 1}));
  }
  at::Tensor forward(const at::Tensor& y, const at::Tensor& x) const { return adapted(y, x); }
};

TEST(LowRankTest, AddsScaleTimesBTimesATimesTheInput) {
  const HandMade module(0.5);
  // A x = 1 - 4 + 9 = 6, B A x = (30, -42), half of it (15, -21).
  const at::Tensor y = module.forward(at::tensor({100.f, 200.f}), at::tensor({1.f, 2.f, 3.f}));
  EXPECT_TRUE(at::equal(y, at::tensor({115.f, 179.f}))) << y;
}

TEST(LowRankTest, GivesTheTypeOfTheLayerBackWhateverTheAdapterComputesIn) {
  const HandMade module(0.5);
  const at::Tensor y = module.forward(at::tensor({100.f, 200.f}).to(at::kBFloat16),
                                      at::tensor({1.f, 2.f, 3.f}).to(at::kBFloat16));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(y.to(at::kFloat), at::tensor({115.f, 179.f}))) << y;
}

TEST(LowRankTest, DropsInputsOfTheAdapterAloneAndOnlyInTraining) {
  HandMade module(1.0, 0.5);
  const at::Tensor x = at::ones({64, 3}), y = at::zeros({64, 2});
  module.train(false);
  EXPECT_TRUE(at::equal(module.forward(y, x), at::tensor({10.f, -14.f}).expand({64, 2})));
  module.train(true);
  const KeyedRandomScope scope(1, 2, "layer", 3);
  const at::Tensor dropped = module.forward(y, x);
  EXPECT_FALSE(at::equal(dropped, at::tensor({10.f, -14.f}).expand({64, 2})));
  // Dropout doubles the inputs that it keeps, so A x is the sum of some of 2, -4 and 6.
  const at::Tensor sums = dropped.select(1, 0) / 5;
  EXPECT_TRUE(at::equal(sums, sums.round()));
  EXPECT_LE(sums.abs().max().item<float>(), 8);
}

TEST(LowRankTest, BeginsAsNothingFromTheSameBitsForANameAndASeed) {
  const ModelSpec base = read_model_spec(below_tests("reference/models_extra/grouped_query"));
  const Adapter adapter = make_adapter(base, {.rank = 4});
  const ModelSpec spec = with_adapter(base, adapter);
  LayerOptions options;
  options.adapter = adapter;
  ChunkChain whole(spec, {}, options), cut(spec, {1, 2}, options),
      plain(base, {}, {.fused = false});  // layers with adapters use plain operators
  whole.initialize(7);
  cut.initialize(7);
  plain.initialize(7);
  std::map<std::string, at::Tensor> in_cut;
  for (Chunk& chunk : cut.chunks()) {
    for (const ParameterInfo& parameter : chunk.parameters())
      in_cut[parameter.name] = parameter.tensor;
  }
  int adapted = 0;
  for (const ParameterInfo& parameter : whole.chunks().front().parameters()) {
    EXPECT_TRUE(at::equal(parameter.tensor, in_cut.at(parameter.name))) << parameter.name;
    EXPECT_EQ(parameter.trainable, is_adapter_parameter(parameter.name)) << parameter.name;
    if (parameter.name.ends_with("lora_B.weight")) {
      EXPECT_EQ(parameter.tensor.abs().max().item<float>(), 0) << parameter.name;
    }
    if (!parameter.name.ends_with("lora_A.weight")) continue;
    ++adapted;
    const double bound = 1 / std::sqrt(static_cast<double>(parameter.tensor.size(1)));
    EXPECT_LE(parameter.tensor.abs().max().item<double>(), bound) << parameter.name;
    EXPECT_GT(parameter.tensor.abs().max().item<double>(), bound / 2) << parameter.name;
  }
  EXPECT_EQ(adapted, 4);
  const at::Tensor ids = at::arange(10).view({2, 5});
  const Values batch{{"input_ids", ids}, {"labels", ids}};
  EXPECT_TRUE(at::equal(whole.forward(batch).get("logits"), plain.forward(batch).get("logits")));
}

class PeftTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PeftTest, LossLogitsAndGradientsAgree) {
  const std::string folder = std::string("reference/adapters/") + GetParam();
  const json expected = read_json(folder + "/expected.json");
  const std::string base = "reference/models_extra/" + expected["model"].get<std::string>();
  const ModelSpec plain = read_model_spec(below_tests(base));
  LayerOptions options;
  options.adapter = read_adapter(below_tests(folder), plain);
  for (const std::vector<int>& cuts : {std::vector<int>{}, std::vector<int>{1, 2}}) {
    ChunkChain model(with_adapter(plain, *options.adapter), cuts, options);
    const HfDirectory weights(below_tests(base));
    const AdapterDirectory tensors(below_tests(folder));
    require_base_layers(tensors, weights);
    for (Chunk& chunk : model.chunks()) {
      std::vector<ParameterInfo> rest;
      for (const ParameterInfo& parameter : chunk.parameters())
        if (!is_adapter_parameter(parameter.name)) rest.push_back(parameter);
      load_parameters(weights, rest, plain);
      load_adapter(tensors, chunk.parameters());
    }
    const Values batch{{"input_ids", int_tensor(expected["input_ids"])},
                       {"labels", int_tensor(expected["labels"])}};
    const Values outputs = model.forward(batch);
    const LossValue loss = causal_lm_loss(outputs, batch);
    EXPECT_EQ(loss.count, expected["counted"].get<std::int64_t>());
    EXPECT_NEAR(loss.loss.item<double>() / static_cast<double>(loss.count),
                expected["loss"].get<double>(), kTolerance);
    testing::expect_sums(outputs.get("logits"), expected["logits"], "logits");
    const at::Tensor last = outputs.get("logits").select(1, -1);
    for (std::int64_t row = 0; row < last.size(0); ++row) {
      testing::expect_near(last[row], expected["logits"]["last_tokens"][row],
                           "logits of the last token of row " + std::to_string(row));
    }
    model.backward(loss.loss / static_cast<double>(loss.count));
    testing::expect_gradient_norms(model, expected["grad_norms"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Adapters, PeftTest,
                         ::testing::Values("plain", "all_linear", "patterns", "head", "conv1d"),
                         [](const auto& made) { return std::string(made.param); });

TEST(LoraLayersTest, RefusesOptionsWithoutTheAdapterOfTheDescription) {
  const ModelSpec base = read_model_spec(below_tests("reference/models_extra/grouped_query"));
  const Adapter adapter = make_adapter(base, {.rank = 4});
  LayerOptions options;
  EXPECT_THROW(make_layers(with_adapter(base, adapter), options), Error);
  options.adapter = adapter;
  EXPECT_THROW(make_layers(base, options), Error);
  EXPECT_NO_THROW(make_layers(with_adapter(base, adapter), options));
}

TEST(LoraLayersTest, ValuesOfABaseAndAnAdapterInitializeAModel) {
  const std::string base = below_tests("reference/models_extra/grouped_query");
  const std::string folder = below_tests("reference/adapters/plain");
  const auto value_of = stored_values_with_adapter(base, folder);
  at::Tensor a = at::zeros({4, 32}), norm = at::zeros({32});
  value_of("model.layers.0.self_attn.q_proj.lora_A.weight", a);
  value_of("model.norm.weight", norm);
  EXPECT_TRUE(at::equal(a, AdapterDirectory(folder).file().read(
                               "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight")));
  EXPECT_TRUE(at::equal(
      norm,
      HfDirectory(base).shards().locate("model.norm.weight").file->read("model.norm.weight")));
  at::Tensor drawn = at::ones({4, 32});
  stored_values_with_adapter(base)("model.layers.0.self_attn.q_proj.lora_A.weight", drawn);
  EXPECT_TRUE(at::equal(drawn, at::ones({4, 32})));
}

}  // namespace
}  // namespace sluice
