#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include "sluice/error.h"
#include "sluice/parts/chunk.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

using test::message_of;

LayerSpec linear_layer(const std::string& name, int in, int out) {
  LayerSpec layer;
  layer.name = name;
  layer.make = [=] { return torch::nn::Linear(in, out).ptr(); };
  layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& read) {
    return std::vector<at::Tensor>{dynamic_cast<torch::nn::LinearImpl&>(module).forward(read[0])};
  };
  layer.shapes = [=](const std::vector<TensorMeta>& read) {
    TensorMeta meta = read.at(0);
    meta.sizes.back() = out;
    return std::vector<TensorMeta>{meta};
  };
  return layer;
}

using Function = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

LayerSpec plain_layer(const std::string& name, std::vector<std::string> reads,
                      std::vector<std::string> writes, Function function) {
  LayerSpec layer;
  layer.name = name;
  layer.reads = std::move(reads);
  layer.writes = std::move(writes);
  layer.forward = [function](torch::nn::Module&, const std::vector<at::Tensor>& read) {
    return function(read);
  };
  return layer;
}

Function sum_of_inputs() {
  return [](const std::vector<at::Tensor>& read) {
    at::Tensor sum = read[0];
    for (std::size_t i = 1; i < read.size(); ++i) sum = sum + read[i];
    return std::vector<at::Tensor>{sum};
  };
}

TEST(ValuesTest, GetNamesTheMissingValueAndThosePresent) {
  const Values values{{"hidden", at::ones({2})}, {"mask", at::ones({2})}};
  const std::string message = message_of([&] { values.get("hiden"); });
  EXPECT_NE(message.find("'hiden'"), std::string::npos) << message;
  EXPECT_NE(message.find("'hidden', 'mask'"), std::string::npos) << message;
}

TEST(ValuesTest, SetReplacesInPlaceAndKeepsTheOrder) {
  Values values{{"a", at::ones({1})}, {"b", at::ones({1})}};
  values.set("a", at::zeros({3}));
  values.set("c", at::ones({1}));
  values.erase("b");
  std::vector<std::string> names;
  for (const auto& [name, tensor] : values) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(values.get("a").numel(), 3);
}

TEST(TensorMetaTest, TextHasDtypeAndSizes) {
  EXPECT_EQ(to_text(meta_of(at::ones({2, 16, 64}))), "float32[2, 16, 64]");
  EXPECT_EQ(to_text(meta_of(at::ones({}, at::kLong))), "int64[]");
}

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"
TEST(LayerSpecTest, IsMadeByDesignatorsWithoutAWarning) {
  const LayerSpec layer = {.name = "mine", .writes = {"out"}};
  EXPECT_EQ(layer.full_name("weight"), "mine.weight");
  EXPECT_EQ(layer.reads, std::vector<std::string>{"hidden"});
  const ParameterInfo parameter = {.name = "mine.weight", .global_shape = {2, 3}};
  EXPECT_TRUE(parameter.trainable && parameter.is_whole());
}
#pragma GCC diagnostic pop

TEST(ChunkTest, ParametersHaveFullNamesInTheOrderOfLayers) {
  Chunk chunk({linear_layer("net.a", 3, 4), linear_layer("net.b", 4, 2)}, 5, {"hidden"},
              {"hidden"});
  std::vector<std::string> names;
  for (const ParameterInfo& parameter : chunk.parameters()) names.push_back(parameter.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"net.a.weight", "net.a.bias", "net.b.weight", "net.b.bias"}));
  EXPECT_EQ(chunk.parameters()[2].layer, 6);
  EXPECT_EQ(chunk.parameters()[2].global_shape, (std::vector<std::int64_t>{2, 4}));
  EXPECT_TRUE(chunk.parameters()[2].tensor.is_leaf());
}

TEST(ChunkTest, ForwardChainsLayersAndReadsTheBatch) {
  Chunk chunk({plain_layer("embed", {"input_ids"}, {"hidden"}, sum_of_inputs()),
               plain_layer("branch", {"hidden"}, {"side"}, sum_of_inputs()),
               plain_layer("join", {"hidden", "side", "input_ids"}, {"hidden"}, sum_of_inputs())},
              0, {}, {"hidden"});
  const Values out = chunk.forward({}, {{"input_ids", at::full({2}, 5.0)}}, 0, 1, 0);
  EXPECT_TRUE(at::equal(out.get("hidden"), at::full({2}, 15.0)));
}

TEST(ChunkTest, OutputsKeepTheOrderOfTheMessage) {
  Chunk chunk({plain_layer("twins", {"hidden"}, {"a", "b"},
                           [](const auto& read) {
                             return std::vector<at::Tensor>{read[0] + 1, read[0] + 2};
                           })},
              0, {"hidden", "relayed"}, {"relayed", "b", "a"});
  const Values out =
      chunk.forward({{"hidden", at::zeros({1})}, {"relayed", at::full({1}, 9.0)}}, {}, 0, 1, 0);
  std::vector<std::pair<std::string, double>> seen;
  for (const auto& [name, tensor] : out) seen.emplace_back(name, tensor.item<double>());
  EXPECT_EQ(seen,
            (std::vector<std::pair<std::string, double>>{{"relayed", 9}, {"b", 2}, {"a", 1}}));
}

// When a layer runs, neither the chunk nor the caller may still hold a value that only earlier
// layers read.
TEST(ChunkTest, ReleasesAValueBeforeItsLastReaderEnds) {
  c10::weak_intrusive_ptr<c10::TensorImpl> input(c10::intrusive_ptr<c10::TensorImpl>{});
  c10::weak_intrusive_ptr<c10::TensorImpl> first(c10::intrusive_ptr<c10::TensorImpl>{});
  std::vector<std::pair<bool, bool>> alive;
  const auto probe = [&](const std::vector<at::Tensor>& read) {
    alive.emplace_back(!input.expired(), !first.expired());
    return std::vector<at::Tensor>{read[0] + 1};
  };
  const auto remember = [&](const std::vector<at::Tensor>& read) {
    at::Tensor written = read[0] + 1;
    first = c10::weak_intrusive_ptr<c10::TensorImpl>(written.getIntrusivePtr());
    return std::vector<at::Tensor>{written};
  };
  Chunk chunk({plain_layer("a", {"hidden"}, {"x"}, remember), plain_layer("b", {"x"}, {"y"}, probe),
               plain_layer("c", {"y"}, {"y"}, probe), plain_layer("d", {"y"}, {"y"}, probe)},
              0, {"hidden"}, {"y"});
  Values received{{"hidden", at::zeros({4}) + 1}};
  input = c10::weak_intrusive_ptr<c10::TensorImpl>(received.get("hidden").getIntrusivePtr());
  chunk.forward(std::move(received), {}, 0, 1, 0);
  EXPECT_EQ(alive,
            (std::vector<std::pair<bool, bool>>{{false, true}, {false, false}, {false, false}}));
}

TEST(ChunkTest, ReleasesAValueThatNobodyReads) {
  c10::weak_intrusive_ptr<c10::TensorImpl> unread(c10::intrusive_ptr<c10::TensorImpl>{});
  bool alive = true;
  Chunk chunk({plain_layer("a", {"hidden"}, {"hidden", "unread"},
                           [&](const auto& read) {
                             at::Tensor extra = read[0] * 2;
                             unread =
                                 c10::weak_intrusive_ptr<c10::TensorImpl>(extra.getIntrusivePtr());
                             return std::vector<at::Tensor>{read[0] + 1, extra};
                           }),
               plain_layer("b", {"hidden"}, {"hidden"},
                           [&](const auto& read) {
                             alive = !unread.expired();
                             return std::vector<at::Tensor>{read[0]};
                           })},
              0, {"hidden"}, {"hidden"});
  chunk.forward({{"hidden", at::zeros({4})}}, {}, 0, 1, 0);
  EXPECT_FALSE(alive);
}

TEST(ChunkTest, OutputMetasFollowTheShapeFunctions) {
  const Chunk chunk({linear_layer("a", 3, 4), linear_layer("b", 4, 7)}, 0, {"hidden"}, {"hidden"});
  const auto metas = chunk.output_metas({{{2, 5, 3}, at::kFloat}}, {});
  ASSERT_TRUE(metas.has_value());
  EXPECT_EQ(to_text(metas->at(0)), "float32[2, 5, 7]");
}

TEST(ChunkTest, OutputMetasAreUnknownWithoutAShapeFunction) {
  const Chunk chunk({plain_layer("a", {"hidden"}, {"hidden"}, sum_of_inputs())}, 0, {"hidden"},
                    {"hidden"});
  EXPECT_FALSE(chunk.output_metas({{{2}, at::kFloat}}, {}).has_value());
}

TEST(ChunkTest, NamesALayerWhoseShapeFunctionForgetsAValue) {
  LayerSpec layer = plain_layer("a", {"hidden"}, {"x", "y"}, sum_of_inputs());
  layer.shapes = [](const std::vector<TensorMeta>& read) { return read; };
  const Chunk chunk({layer}, 0, {"hidden"}, {"x"});
  const std::string message = message_of([&] { chunk.output_metas({{{2, 3}, at::kFloat}}, {}); });
  EXPECT_NE(message.find("layer 'a' gives 1 shapes, but writes 2 values"), std::string::npos)
      << message;
}

TEST(ChunkTest, FirstLayerOutputsAreKeptOnlyWithoutDifferentiableInputs) {
  Chunk chunk({linear_layer("a", 3, 4), linear_layer("b", 4, 2)}, 0, {"hidden"}, {"hidden"});
  chunk.forward({{"hidden", at::ones({2, 3})}}, {}, 0, 1, 0);
  const auto kept = chunk.take_first_layer_outputs();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].size(1), 4);
  EXPECT_TRUE(chunk.take_first_layer_outputs().empty());
  chunk.forward({{"hidden", at::ones({2, 3}).requires_grad_()}}, {}, 0, 1, 0);
  EXPECT_TRUE(chunk.take_first_layer_outputs().empty());
}

TEST(ChunkTest, RefusesAValueThatNobodyGives) {
  Chunk chunk({plain_layer("join", {"hidden", "maks"}, {"hidden"}, sum_of_inputs())}, 0, {"hidden"},
              {"hidden"});
  const std::string message = message_of([&] {
    chunk.forward({{"hidden", at::ones({1})}}, {{"mask", at::ones({1})}}, 0, 1, 0);
  });
  EXPECT_NE(message.find("layer 'join' reads 'maks'"), std::string::npos) << message;
  EXPECT_NE(message.find("did you mean 'mask'?"), std::string::npos) << message;
}

TEST(ChunkTest, RefusesAnotherNumberOfResultsThanDeclared) {
  Chunk chunk({plain_layer("a", {"hidden"}, {"x", "y"}, sum_of_inputs())}, 0, {"hidden"}, {"x"});
  const std::string message = message_of([&] {
    chunk.forward({{"hidden", at::ones({1})}}, {}, 0, 1, 0);
  });
  EXPECT_NE(message.find("layer 'a' returned 1 values, but declares 2"), std::string::npos)
      << message;
}

TEST(ChunkTest, RefusesAnOutputThatNobodyWrites) {
  const std::string message = message_of([] {
    Chunk({plain_layer("a", {"hidden"}, {"hidden"}, sum_of_inputs())}, 0, {"hidden"}, {"hiden"});
  });
  EXPECT_NE(message.find("'hiden'"), std::string::npos) << message;
}

TEST(ChunkTest, MakesModulesWithoutTheDefaultGenerator) {
  at::manual_seed(3);
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  Chunk first({linear_layer("a", 3, 4)}, 0, {"hidden"}, {"hidden"});
  EXPECT_TRUE(at::equal(before, at::detail::getDefaultCPUGenerator().get_state()));
  at::manual_seed(4);
  Chunk second({linear_layer("a", 3, 4)}, 0, {"hidden"}, {"hidden"});
  EXPECT_TRUE(at::equal(first.parameters()[0].tensor, second.parameters()[0].tensor));
}

TEST(ChunkTest, RefusesALayerThatWritesToTheBatchInPlace) {
  const auto refusal = [](std::vector<LayerSpec> layers) {
    Chunk chunk(std::move(layers), 0, {}, {"hidden"});
    return message_of([&] { chunk.forward({}, {{"x", at::ones({4, 2})}}, 0, 1, 0); });
  };
  const Function doubled = [](const std::vector<at::Tensor>& read) {
    return std::vector<at::Tensor>{at::Tensor(read[0]).mul_(2)};
  };
  const std::string direct = refusal({plain_layer("a", {"x"}, {"hidden"}, doubled)});
  EXPECT_NE(direct.find("layer 'a' writes in place to the input 'x' of the batch"),
            std::string::npos)
      << direct;
  EXPECT_NE(direct.find("x.clone()"), std::string::npos) << direct;
  // Writes into a view of the input, under another name.
  const Function view = [](const std::vector<at::Tensor>& read) {
    return std::vector<at::Tensor>{read[0].flatten()};
  };
  const std::string later = refusal({plain_layer("flat", {"x"}, {"hidden"}, view),
                                     plain_layer("b", {"hidden"}, {"hidden"}, doubled)});
  EXPECT_NE(later.find("layer 'b' writes in place to the input 'x'"), std::string::npos) << later;
  Chunk chunk({plain_layer("sum", {"x", "x"}, {"hidden"}, sum_of_inputs()),
               plain_layer("b", {"hidden"}, {"hidden"}, doubled)},
              0, {}, {"hidden"});
  const Values out = chunk.forward({}, {{"x", at::ones({1})}}, 0, 1, 0);
  EXPECT_EQ(out["hidden"].item<float>(), 4);
}

TEST(ChunkTest, TellsWhichLayersForwardThrew) {
  Chunk chunk({linear_layer("a", 3, 4), linear_layer("b", 5, 2)}, 0, {"hidden"}, {"hidden"});
  EXPECT_EQ(chunk.take_failed_layer(), "");
  EXPECT_THROW(chunk.forward({{"hidden", at::ones({2, 3})}}, {}, 0, 1, 0), c10::Error);
  EXPECT_EQ(chunk.take_failed_layer(), "layer 'b'");
  EXPECT_EQ(chunk.take_failed_layer(), "");
}

}  // namespace
}  // namespace sluice
