#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "layer/initialize_chunks.h"
#include "sluice/error.h"
#include "sluice/parts/chunk.h"

namespace sluice {
namespace {

LayerSpec square(const std::string& name, const std::string& tied_to = "", int size = 4) {
  LayerSpec layer;
  layer.name = name;
  layer.make = [size] {
    return torch::nn::Linear(torch::nn::LinearOptions(size, size).bias(false)).ptr();
  };
  layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& read) {
    return std::vector<at::Tensor>{dynamic_cast<torch::nn::LinearImpl&>(module).forward(read[0])};
  };
  if (!tied_to.empty()) layer.ties = {{"weight", tied_to}};
  return layer;
}

Chunk chunk_of(std::vector<LayerSpec> layers, int first_layer = 0) {
  return Chunk(std::move(layers), first_layer, {"hidden"}, {"hidden"});
}

TEST(TiedParametersTest, UsesInOneChunkShareStorageButNotGradients) {
  Chunk chunk = chunk_of({square("a"), square("b"), square("c", "a.weight")});
  const at::Tensor& first = chunk.parameters()[0].tensor;
  const at::Tensor& later = chunk.parameters()[2].tensor;
  EXPECT_EQ(chunk.parameters()[2].tied_to, "a.weight");
  EXPECT_TRUE(first.is_alias_of(later));
  EXPECT_FALSE(first.is_same(later));
  EXPECT_TRUE(later.is_leaf() && later.requires_grad());

  initialize_parameters(chunk, 1);
  const at::Tensor x = at::ones({2, 4});
  chunk.forward({{"hidden", x}}, {}, 0, 1, 0).get("hidden").sum().backward();
  const at::Tensor w = first.detach(), b = chunk.parameters()[1].tensor.detach();
  EXPECT_TRUE(at::allclose(later.grad(), at::ones({2, 4}).t().mm(x.mm(w.t()).mm(b.t()))));
  EXPECT_TRUE(at::allclose(first.grad(), (at::ones({2, 4}).mm(w).mm(b)).t().mm(x)));
}

TEST(TiedParametersTest, AWriteThroughTheFirstUseIsSeenByTheModuleOfTheLaterUse) {
  Chunk chunk = chunk_of({square("a"), square("b", "a.weight")});
  {
    const at::NoGradGuard no_grad;
    chunk.parameters()[0].tensor.fill_(0.5);
  }
  const Values out = chunk.forward({{"hidden", at::ones({1, 4})}}, {}, 0, 1, 0);
  EXPECT_TRUE(at::equal(out.get("hidden"), at::full({1, 4}, 4.0)));
}

TEST(TiedParametersTest, UsesInTwoChunksHaveTheirOwnStorageAndTheSameInitialValue) {
  Chunk first = chunk_of({square("a")}), last = chunk_of({square("b"), square("c", "a.weight")}, 1);
  initialize_parameters(first, 7);
  initialize_parameters(last, 7);
  EXPECT_FALSE(first.parameters()[0].tensor.is_alias_of(last.parameters()[1].tensor));
  EXPECT_TRUE(at::equal(first.parameters()[0].tensor, last.parameters()[1].tensor));
  EXPECT_FALSE(at::equal(first.parameters()[0].tensor, last.parameters()[0].tensor));
}

TEST(TiedParametersTest, ChunksOfOneRankCanShareStorage) {
  Chunk first = chunk_of({square("a")}), last = chunk_of({square("c", "a.weight")}, 3);
  share_tied_storage({&last, &first});
  EXPECT_TRUE(first.parameters()[0].tensor.is_alias_of(last.parameters()[0].tensor));
}

TEST(TiedParametersTest, LaterUsesShareStorageWhenTheFirstUseIsElsewhere) {
  Chunk chunk = chunk_of({square("b", "a.weight"), square("c"), square("d", "a.weight")}, 1);
  EXPECT_TRUE(chunk.parameters()[0].tensor.is_alias_of(chunk.parameters()[2].tensor));
}

TEST(TiedParametersTest, RefusesTiesOfDifferentShapesAndUnknownNames) {
  try {
    chunk_of({square("a"), square("b", "a.weight", 5)});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("'b.weight' is float32[5, 5] but is tied to 'a.weight', float32[4, 4]"),
              std::string::npos)
        << error.what();
  }
  LayerSpec layer = square("b");
  layer.ties = {{"wieght", "a.weight"}};
  try {
    chunk_of({square("a"), layer});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'weight'?"), std::string::npos)
        << error.what();
  }
}

TEST(TiedParametersTest, RefusesOneModuleInTwoLayersThatAreNotDeclaredTied) {
  const auto shared = torch::nn::Linear(4, 4).ptr();
  LayerSpec a = square("a"), b = square("b");
  a.make = b.make = [shared] { return shared; };
  EXPECT_THROW(chunk_of({a, b}), Error);
}

TEST(TiedParametersTest, RefusesOneModuleInTwoStagesOfARank) {
  const auto shared = torch::nn::Linear(4, 4).ptr();
  LayerSpec a = square("a"), b = square("b");
  a.make = b.make = [shared] { return shared; };
  Chunk first = chunk_of({a}), second = chunk_of({b}, 1);
  EXPECT_THROW(share_tied_storage({&first, &second}), Error);
}

TEST(InitializeParametersTest, DoesNotDependOnThePartition) {
  const auto layers = [] {
    return std::vector<LayerSpec>{square("a"), square("b"), square("c", "a.weight")};
  };
  Chunk whole = chunk_of(layers());
  initialize_parameters(whole, 11);
  for (std::size_t i = 0; i < 3; ++i) {
    Chunk part = chunk_of({layers()[i]}, static_cast<int>(i));
    initialize_parameters(part, 11);
    EXPECT_TRUE(at::equal(part.parameters()[0].tensor, whole.parameters()[i].tensor)) << i;
  }
}

}  // namespace
}  // namespace sluice
