#include "sluice/layer.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/transformerlayer.h>
#include <torch/nn/options/transformerlayer.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>

#include "base/key_hash.h"
#include "layer/default_generator_swap.h"
#include "layer/keyed_stream.h"
#include "support/counted_allocations.h"

namespace sluice {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors random_work() {
  Tensors drawn{at::rand({5}), at::randn({7}), at::randint(100, {9}), at::randperm(11),
                at::rand_like(at::ones({3}))};
  drawn.push_back(at::bernoulli(at::full({20}, 0.5)));
  drawn.push_back(at::multinomial(at::ones({10}), 4));
  drawn.push_back(at::normal(0.0, 2.0, {6}));
  at::Tensor in_place = at::empty({6});
  drawn.push_back(in_place.exponential_().clone());
  drawn.push_back(in_place.uniform_(-1, 1).clone());
  drawn.push_back(at::dropout(at::ones({50}), 0.3, true));
  drawn.push_back(at::rrelu(at::full({20}, -1.0), 0.1, 0.9, true));
  torch::nn::Dropout dropout(0.3);
  drawn.push_back(dropout(at::ones({8, 8})));
  const at::Tensor q = at::ones({1, 2, 16, 8});
  drawn.push_back(at::scaled_dot_product_attention(q, q, q, {}, 0.2));
  return drawn;
}

Tensors keyed_work(std::uint64_t seed, std::int64_t step, const std::string& layer,
                   std::int64_t microbatch) {
  const KeyedRandomScope scope(seed, step, layer, microbatch);
  return random_work();
}

void expect_equal(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << "item " << i;
}

void expect_all_different(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_FALSE(at::equal(a[i], b[i])) << "item " << i;
}

at::Tensor default_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

TEST(KeyedRandomTest, OneKeyGivesTheSameBitsAgain) {
  expect_equal(keyed_work(1, 2, "a", 3), keyed_work(1, 2, "a", 3));
}

TEST(KeyedRandomTest, EveryPartOfTheKeyMatters) {
  const Tensors drawn = keyed_work(1, 2, "a", 3);
  expect_all_different(drawn, keyed_work(9, 2, "a", 3));
  expect_all_different(drawn, keyed_work(1, 9, "a", 3));
  expect_all_different(drawn, keyed_work(1, 2, "b", 3));
  expect_all_different(drawn, keyed_work(1, 2, "a", 9));
}

TEST(KeyedRandomTest, PartsOfTheKeyDoNotRunTogether) {
  expect_all_different(keyed_work(1, 2, "a", 3), keyed_work(2, 1, "a", 3));
  expect_all_different(keyed_work(1, 2, "a", 3), keyed_work(1, 3, "a", 2));
}

TEST(KeyedRandomTest, AStreamOfAnotherNameIsThatOfAScopeOfThatName) {
  const Tensors expected = keyed_work(1, 2, "b", 3);
  const Tensors after = [] {
    const KeyedRandomScope scope(1, 2, "a", 3);
    return random_work();
  }();
  const KeyedRandomScope scope(1, 2, "a", 3);
  {
    const NamedStreamScope inner(hash_name("b"));
    expect_equal(random_work(), expected);
  }
  expect_equal(random_work(), after);
}

TEST(KeyedRandomTest, ANamedStreamOutsideOfAScopeIsTheDefaultGenerator) {
  at::manual_seed(4);
  const at::Tensor expected = at::rand({5});
  at::manual_seed(4);
  const NamedStreamScope outside(hash_name("b"));
  EXPECT_TRUE(at::equal(at::rand({5}), expected));
}

TEST(KeyedRandomTest, ThreadsDoNotDisturbEachOther) {
  const Tensors expected = keyed_work(1, 2, "a", 3);
  std::vector<Tensors> found(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < found.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int repetition = 0; repetition < 5; ++repetition) {
        found[t] = keyed_work(1, 2, t % 2 ? "a" : "other", 3);
        at::rand({3});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_equal(found[1], expected);
  expect_equal(found[3], expected);
  expect_equal(found[0], found[2]);
  expect_all_different(found[0], expected);
}

TEST(KeyedRandomTest, ManualSeedHasNoInfluence) {
  at::manual_seed(1);
  const Tensors expected = keyed_work(1, 2, "a", 3);
  at::manual_seed(2);
  expect_equal(keyed_work(1, 2, "a", 3), expected);
}

TEST(KeyedRandomTest, TheDefaultGeneratorIsUntouchedInsideAndUsedOutside) {
  at::manual_seed(5);
  const at::Tensor before = default_state();
  keyed_work(1, 2, "a", 3);
  EXPECT_TRUE(at::equal(default_state(), before));
  const Tensors outside = random_work();
  EXPECT_FALSE(at::equal(default_state(), before));
  at::manual_seed(5);
  expect_equal(random_work(), outside);
}

TEST(KeyedRandomTest, TheInnerScopeHoldsThenTheOuterGoesOn) {
  Tensors plain, nested;
  {
    const KeyedRandomScope outer(1, 1, "outer", 0);
    plain = {at::rand({4}), at::rand({4})};
  }
  const Tensors inner_alone = keyed_work(1, 1, "inner", 0);
  {
    const KeyedRandomScope outer(1, 1, "outer", 0);
    nested.push_back(at::rand({4}));
    expect_equal(keyed_work(1, 1, "inner", 0), inner_alone);
    nested.push_back(at::rand({4}));
  }
  expect_equal(nested, plain);
  EXPECT_FALSE(at::equal(plain[0], plain[1]));
}

TEST(KeyedRandomTest, AnExceptionLeavesTheScope) {
  at::manual_seed(5);
  const at::Tensor expected = at::rand({4});
  try {
    const KeyedRandomScope scope(1, 1, "a", 0);
    throw std::runtime_error("user code failed");
  } catch (const std::runtime_error&) {
  }
  at::manual_seed(5);
  EXPECT_TRUE(at::equal(at::rand({4}), expected));
}

TEST(KeyedRandomTest, AGeneratorThatTheCallerPassesIsRespected) {
  const at::Tensor expected = at::rand({4}, at::detail::createCPUGenerator(11));
  const KeyedRandomScope scope(1, 2, "a", 3);
  EXPECT_TRUE(at::equal(at::rand({4}, at::detail::createCPUGenerator(11)), expected));
}

TEST(KeyedRandomTest, UserModulesWithDropoutFollowTheKeyInForwardAndBackward) {
  at::Tensor gradients[3], outputs[3];
  torch::nn::TransformerEncoderLayer layer(
      torch::nn::TransformerEncoderLayerOptions(32, 4).dropout(0.2));
  for (int run = 0; run < 3; ++run) {
    at::manual_seed(static_cast<std::uint64_t>(run));
    layer->zero_grad();
    {
      const KeyedRandomScope scope(1, run == 2 ? 2 : 1, "encoder", 0);
      outputs[run] = layer(at::ones({5, 2, 32}));
    }
    at::rand({100});
    outputs[run].sum().backward();
    gradients[run] = layer->linear1->weight.grad().clone();
  }
  EXPECT_TRUE(at::equal(outputs[0], outputs[1]));
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
  EXPECT_FALSE(at::equal(outputs[0], outputs[2]));
}

TEST(KeyedRandomTest, DropoutKeepsTheRightShare) {
  const KeyedRandomScope scope(1, 2, "a", 3);
  const at::Tensor kept = at::dropout(at::ones({200'000}), 0.3, true).ne(0).to(at::kDouble);
  EXPECT_NEAR(kept.mean().item<double>(), 0.7, 6e-3);
}

TEST(KeyedRandomTest, StreamsOfDifferentKeysAreNotCorrelated) {
  std::vector<at::Tensor> streams;
  for (std::int64_t microbatch = 0; microbatch < 8; ++microbatch) {
    const KeyedRandomScope scope(0, 1, "layer", microbatch);
    streams.push_back(at::randn({20'000}, at::kDouble));
  }
  for (std::size_t a = 0; a < streams.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_LT(std::abs((streams[a] * streams[b]).mean().item<double>()), 0.036) << a << " " << b;
    }
  }
}

TEST(KeyedRandomTest, WorksInInferenceModeAndUnderAutocast) {
  const Tensors expected = keyed_work(1, 2, "a", 3);
  {
    const c10::InferenceMode inference;
    const Tensors found = keyed_work(1, 2, "a", 3);
    expect_equal(found, expected);
  }
  const bool before = at::autocast::is_autocast_enabled(at::kCPU);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Tensors found = keyed_work(1, 2, "a", 3);
  at::autocast::set_autocast_enabled(at::kCPU, before);
  for (std::size_t i = 0; i + 1 < found.size(); ++i)
    EXPECT_TRUE(at::equal(found[i], expected[i])) << "item " << i;
  EXPECT_EQ(found.back().scalar_type(), at::kBFloat16);
}

TEST(KeyedRandomTest, TensorsOnTheMetaDeviceNeedNoNumbers) {
  const KeyedRandomScope scope(1, 2, "a", 3);
  EXPECT_TRUE(at::rand({3}, at::TensorOptions(at::kMeta)).is_meta());
  EXPECT_TRUE(at::empty({3}, at::TensorOptions(at::kMeta)).normal_().is_meta());
}

// The test counts allocations, because time depends on the machine. bench/layer_bench.cpp measures
// time.
TEST(KeyedRandomTest, AScopeWithoutDrawsMakesNoGenerator) {
  const auto scope_with = [](const std::function<void()>& work) {
    return test::allocations_of([&] {
      const KeyedRandomScope scope(1, 2, "model.layers.17", 3);
      work();
    });
  };
  scope_with([] {});  // the first scope also registers the interception of operators
  const test::Allocations empty = scope_with([] {});
  EXPECT_EQ(empty.count, 1);
  EXPECT_LT(empty.bytes, 512);
  // The state of a generator is 624 words of 4 bytes.
  EXPECT_GT(scope_with([] { at::rand({1}); }).bytes, 2496);
}

TEST(KeyedRandomTest, OperatorsThatDoNotDrawAllocateNoMoreInAScope) {
  const at::Tensor x = at::ones({2, 2});
  // Leaves out matrix products, because their library allocates buffers in some calls only.
  const auto work = [&] { x.mul(x).add_(x).tanh().sum(0); };
  test::allocations_of(work);
  const std::int64_t outside = test::allocations_of(work).count;
  const KeyedRandomScope scope(1, 2, "model.layers.17", 3);
  EXPECT_EQ(test::allocations_of(work).count, outside);
}

// CUDA's fused dropout and attention take this path. Here two CPU generators stand in.
TEST(DefaultGeneratorSwapTest, LendsTheStateAndTakesItBack) {
  const at::Generator own = at::detail::createCPUGenerator(3),
                      same = at::detail::createCPUGenerator(3);
  at::Generator shared = at::detail::createCPUGenerator(4);
  const at::Tensor before = shared.get_state();
  for (int call = 0; call < 3; ++call) {
    at::Tensor lent;
    {
      const DefaultGeneratorSwap swap(own, shared);
      lent = at::rand({5}, shared);
    }
    EXPECT_TRUE(at::equal(lent, at::rand({5}, same))) << call;
    EXPECT_TRUE(at::equal(shared.get_state(), before));
  }
}

}  // namespace
}  // namespace sluice
