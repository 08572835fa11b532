#include "layer/casted_weights.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/linear.h>

#include <functional>
#include <map>

#include "sluice/layer.h"
#include "sluice/parts/chunk.h"

namespace sluice {
namespace {

constexpr std::int64_t kWidth = 8;

// Enables autocast to bfloat16 without its process-wide cache.
class Autocast {
 public:
  Autocast() { set(true); }
  ~Autocast() { set(false); }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  static void set(bool on) {
    at::autocast::set_autocast_enabled(at::kCPU, on);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(!on);
  }
};

at::Tensor numbers(at::IntArrayRef sizes, double start) {
  const std::int64_t count = c10::multiply_integers(sizes);
  return at::sin(at::arange(count, at::kFloat) * 0.7 + start).reshape(sizes).clone();
}

using Product = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)>;

// x: [3, 4, kWidth].
const std::map<std::string, std::pair<std::vector<std::int64_t>, Product>>& products() {
  static const std::map<std::string, std::pair<std::vector<std::int64_t>, Product>> all = {
      {"linear",
       {{5, kWidth},
        [](const at::Tensor& x, const at::Tensor& w) { return at::linear(x, w, w.sum(1)); }}},
      {"matmul",
       {{kWidth, 5}, [](const at::Tensor& x, const at::Tensor& w) { return at::matmul(x, w); }}},
      {"mm",
       {{kWidth, 5},
        [](const at::Tensor& x, const at::Tensor& w) { return at::mm(x.flatten(0, 1), w); }}},
      {"addmm",
       {{kWidth, 5},
        [](const at::Tensor& x, const at::Tensor& w) {
          return at::addmm(at::ones({5}), x.flatten(0, 1), w);
        }}},
      {"bmm",
       {{3, kWidth, 5}, [](const at::Tensor& x, const at::Tensor& w) { return at::bmm(x, w); }}},
      {"baddbmm",
       {{3, kWidth, 5},
        [](const at::Tensor& x, const at::Tensor& w) {
          return at::baddbmm(at::ones({3, 4, 5}), x, w);
        }}},
      {"addbmm",
       {{3, kWidth, 5},
        [](const at::Tensor& x, const at::Tensor& w) {
          return at::addbmm(at::ones({4, 5}), x, w);
        }}},
      {"transposed",
       {{5, kWidth},
        [](const at::Tensor& x, const at::Tensor& w) {
          return torch::nn::functional::linear(x, w) +
                 torch::nn::functional::linear(x.flatten(0, 1), w, at::ones({5})).view({3, 4, 5});
        }}},
      {"conv2d",
       {{6, 3, 2, 3},
        [](const at::Tensor& x, const at::Tensor& w) { return at::conv2d(x.unsqueeze(0), w); }}},
      {"conv3d",
       {{6, 1, 2, 2, 3},
        [](const at::Tensor& x, const at::Tensor& w) {
          return at::conv3d(x.unsqueeze(0).unsqueeze(0), w);
        }}},
      {"conv_transpose1d",
       {{4, 6, 3},
        [](const at::Tensor& x, const at::Tensor& w) { return at::conv_transpose1d(x, w); }}},
      {"conv1d",
       {{6, 4, 3}, [](const at::Tensor& x, const at::Tensor& w) { return at::conv1d(x, w); }}},
      {"twice", {{kWidth, kWidth}, [](const at::Tensor& x, const at::Tensor& w) {
                   return at::matmul(at::tanh(at::matmul(x, w)), w);
                 }}}};
  return all;
}

Chunk chunk_of(const Product& product, const at::Tensor& weight, bool trains = true) {
  LayerSpec layer;
  layer.name = "product";
  layer.reads = {"x"};
  layer.writes = {"y"};
  layer.make = [weight, trains] {
    auto module = std::make_shared<torch::nn::Module>();
    module->register_parameter("weight", weight, trains);
    return module;
  };
  layer.forward = [product](torch::nn::Module& module, const std::vector<at::Tensor>& read) {
    return std::vector<at::Tensor>{product(read[0], module.named_parameters()["weight"])};
  };
  return Chunk({layer}, 0, {"x"}, {"y"});
}

at::Tensor run(Chunk& chunk, const at::Tensor& x) {
  return chunk.run_layer(0, {x}, 0, 1, 0).front();
}

// Sets the copy of the only weight to zero. Products that read the copy then give zeros.
void wipe_copy(Chunk& chunk) {
  const at::NoGradGuard no_grad;
  chunk.casted_weights().cast(chunk.parameters().front().tensor, at::kBFloat16).zero_();
}

bool is_zero(const at::Tensor& tensor) { return tensor.abs().sum().item<double>() == 0.0; }

TEST(CastedWeightsTest, NumbersAreThoseOfAutocastWithoutThem) {
  for (const auto& [name, shape_and_product] : products()) {
    const auto& [shape, product] = shape_and_product;
    const at::Tensor x = numbers({3, 4, kWidth}, 0.1);
    at::Tensor plain = numbers(shape, 0.5).requires_grad_();
    at::Tensor x_plain = x.clone().requires_grad_(), x_own = x.clone().requires_grad_();
    Chunk chunk = chunk_of(product, numbers(shape, 0.5));
    for (int microbatch = 0; microbatch < 3; ++microbatch) {
      const at::Tensor scale = at::scalar_tensor(1.0 + microbatch);
      at::Tensor want, got;
      {
        const Autocast autocast;
        want = product(x_plain * scale, plain);
        got = run(chunk, x_own * scale);
      }
      ASSERT_TRUE(at::equal(got, want)) << name;
      EXPECT_EQ(got.scalar_type(), at::kBFloat16) << name;
      want.sum().backward();
      got.sum().backward();
      const at::Tensor& weight = chunk.parameters().front().tensor;
      EXPECT_TRUE(at::equal(weight.grad(), plain.grad())) << name;
      EXPECT_EQ(weight.grad().scalar_type(), at::kFloat) << name;
      EXPECT_TRUE(at::equal(x_own.grad(), x_plain.grad())) << name;
    }
  }
}

TEST(CastedWeightsTest, AWeightIsCastOnceUntilItChanges) {
  for (const auto& [name, shape_and_product] : products()) {
    const auto& [shape, product] = shape_and_product;
    const at::Tensor x = numbers({3, 4, kWidth}, 0.1);
    Chunk chunk = chunk_of(
        [&product](const at::Tensor& input, const at::Tensor& w) {
          return product(input, w) - product(input * 0, w);
        },
        numbers(shape, 0));
    const std::int64_t bytes = 2 * c10::multiply_integers(shape);
    const Autocast autocast;
    const at::Tensor first = run(chunk, x);
    EXPECT_FALSE(is_zero(first)) << name;
    EXPECT_EQ(chunk.casted_weights().bytes(), bytes) << name;
    wipe_copy(chunk);
    EXPECT_TRUE(is_zero(run(chunk, x))) << name;
    {
      const at::NoGradGuard no_grad;
      at::Tensor weight = chunk.parameters().front().tensor;
      weight.mul_(1);
    }
    EXPECT_TRUE(at::equal(run(chunk, x), first)) << name;
    wipe_copy(chunk);
    chunk.casted_weights().clear();
    EXPECT_EQ(chunk.casted_weights().bytes(), 0) << name;
    EXPECT_TRUE(at::equal(run(chunk, x), first)) << name;
    EXPECT_EQ(chunk.casted_weights().bytes(), bytes) << name;
  }
}

TEST(CastedWeightsTest, NothingIsCastOutsideOfAutocastNorInFloat64) {
  const auto linear = [](const at::Tensor& x, const at::Tensor& w) { return at::linear(x, w); };
  const at::Tensor x = numbers({3, 4, kWidth}, 0.1);
  Chunk wide = chunk_of(linear, numbers({5, kWidth}, 0));
  EXPECT_EQ(run(wide, x).scalar_type(), at::kFloat);
  EXPECT_EQ(wide.casted_weights().bytes(), 0);
  Chunk wider = chunk_of(linear, numbers({5, kWidth}, 0).to(at::kDouble));
  const Autocast autocast;
  EXPECT_EQ(run(wider, x.to(at::kDouble)).scalar_type(), at::kDouble);
  EXPECT_EQ(wider.casted_weights().bytes(), 0);
  // A layer may turn autocast off. It then computes in the weight's type even though copies exist.
  Chunk off = chunk_of(
      [](const at::Tensor& input, const at::Tensor& w) {
        at::autocast::set_autocast_enabled(at::kCPU, false);
        at::Tensor y = at::linear(input, w);
        at::autocast::set_autocast_enabled(at::kCPU, true);
        return y;
      },
      numbers({5, kWidth}, 0));
  EXPECT_EQ(run(off, x).scalar_type(), at::kFloat);
  EXPECT_EQ(off.casted_weights().bytes(), 0);
}

TEST(CastedWeightsTest, FrozenWeightsAndForwardsWithoutAGraphShareTheCopy) {
  const auto linear = [](const at::Tensor& x, const at::Tensor& w) { return at::linear(x, w); };
  at::Tensor x = numbers({3, 4, kWidth}, 0.1).requires_grad_();
  Chunk frozen = chunk_of(linear, numbers({5, kWidth}, 0));
  frozen.parameters().front().tensor.set_requires_grad(false);
  const Autocast autocast;
  run(frozen, x).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(frozen.parameters().front().tensor.grad().defined());
  wipe_copy(frozen);
  {
    const at::NoGradGuard no_grad;
    const at::Tensor y = run(frozen, x);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(is_zero(y));
  }

  // A copy made by a forward without a graph also serves a forward that records one.
  Chunk trained = chunk_of(linear, numbers({5, kWidth}, 0));
  {
    const at::NoGradGuard no_grad;
    run(trained, x);
  }
  wipe_copy(trained);
  const at::Tensor y = run(trained, x);
  EXPECT_TRUE(is_zero(y));
  y.sum().backward();
  EXPECT_TRUE(trained.parameters().front().tensor.grad().defined());
}

TEST(CastedWeightsTest, ATransposeThatWasTakenWithoutAGraphHasNone) {
  Chunk chunk = chunk_of(
      [](const at::Tensor& x, const at::Tensor& w) {
        at::Tensor transposed;
        {
          const at::NoGradGuard no_grad;
          transposed = w.t();
        }
        return at::matmul(x, transposed);
      },
      numbers({5, kWidth}, 0));
  at::Tensor x = numbers({3, 4, kWidth}, 0.1).requires_grad_();
  const Autocast autocast;
  run(chunk, x).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(chunk.parameters().front().tensor.grad().defined());
  EXPECT_GT(chunk.casted_weights().bytes(), 0);
}

TEST(CastedWeightsTest, ACopyThatInferenceModeHasMadeServesAGraph) {
  const auto product = [](const at::Tensor& x, const at::Tensor& w) {
    at::Tensor scale;
    {
      const c10::InferenceMode inference;
      scale = at::linear(x.detach(), w).sum();
    }
    return at::linear(x, w) * scale.clone().item<double>();
  };
  Chunk chunk = chunk_of(product, numbers({5, kWidth}, 0));
  at::Tensor x = numbers({3, 4, kWidth}, 0.1).requires_grad_();
  const Autocast autocast;
  run(chunk, x).sum().backward();
  at::Tensor plain = numbers({5, kWidth}, 0).requires_grad_();
  product(x.detach(), plain).sum().backward();
  EXPECT_TRUE(at::equal(chunk.parameters().front().tensor.grad(), plain.grad()));

  at::Tensor made_there;
  {
    const c10::InferenceMode inference;
    made_there = numbers({5, kWidth}, 0);
  }
  const auto linear = [](const at::Tensor& input, const at::Tensor& w) {
    return at::linear(input, w);
  };
  Chunk frozen = chunk_of(linear, made_there, /*trains=*/false);
  EXPECT_TRUE(at::equal(run(frozen, x), at::linear(x, numbers({5, kWidth}, 0))));
}

TEST(CastedWeightsTest, AWeightOfOtherMemoryIsCastAnew) {
  Chunk chunk = chunk_of([](const at::Tensor& x, const at::Tensor& w) { return at::linear(x, w); },
                         numbers({5, kWidth}, 0));
  const at::Tensor x = numbers({3, 4, kWidth}, 0.1);
  const Autocast autocast;
  run(chunk, x);
  at::Tensor weight = chunk.parameters().front().tensor;
  weight.set_data(numbers({5, kWidth}, 1));
  EXPECT_TRUE(at::equal(run(chunk, x), at::linear(x, numbers({5, kWidth}, 1))));
}

TEST(CastedWeightsTest, GraphsOutliveTheMemoryOfTheCopies) {
  const std::vector<std::int64_t> shape = {5, kWidth};
  Chunk chunk = chunk_of([](const at::Tensor& x, const at::Tensor& w) { return at::linear(x, w); },
                         numbers(shape, 0));
  at::Tensor x = numbers({3, 4, kWidth}, 0.1).requires_grad_();
  const Autocast autocast;
  const at::Tensor y = run(chunk, x);
  chunk.casted_weights().empty();
  EXPECT_EQ(chunk.casted_weights().bytes(), 0);
  chunk.casted_weights().fill();
  EXPECT_EQ(chunk.casted_weights().bytes(), 2 * 5 * kWidth);
  y.sum().backward();
  at::Tensor plain = x.detach().clone().requires_grad_();
  at::linear(plain, numbers(shape, 0)).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), plain.grad()));
}

}  // namespace
}  // namespace sluice
