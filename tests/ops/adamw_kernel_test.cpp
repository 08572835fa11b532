// Compares AdamW with float64. Every result is at most a few roundings away.
#include "ops/kernel_support.h"

namespace sluice::ops {
namespace {

struct State {
  std::vector<float> value, mean, square;
};

State step(const Kernels& kernels, const State& before, const std::vector<float>& gradient,
           double divisor, Place place = Place::kEnd) {
  Memory value(before.value, place), mean(before.mean, place), square(before.square, place),
      of_gradient(gradient, place);
  AdamWCall call;
  call.size = static_cast<Index>(before.value.size());
  call.value = value.data();
  call.mean = mean.data();
  call.square = square.data();
  call.gradient = of_gradient.data();
  call.lr = 1e-2;
  call.beta1 = 0.9;
  call.beta2 = 0.95;
  call.eps = 1e-8;
  call.weight_decay = 0.1;
  call.correction1 = 1 - std::pow(0.9, 3);
  call.correction2 = 1 - std::pow(0.95, 3);
  call.gradient_divisor = divisor;
  kernels.adamw(call);
  return {value.values(), mean.values(), square.values()};
}

State some_state(Index size) {
  State state = {random_floats(size, 1), random_floats(size, 2, 0.1f),
                 random_floats(size, 3, 0.1f)};
  for (float& value : state.square) value *= value;
  return state;
}

using AdamWKernelTest = KernelTest;
SLUICE_AT_EVERY_LEVEL(AdamWKernelTest);

TEST_P(AdamWKernelTest, IsNearFloat64AtEverySize) {
  for (const Index size : {1, 7, 16, 33, 688}) {
    for (const double divisor : {1.0, 2.5}) {
      const State before = some_state(size);
      const auto gradient = random_floats(size, 4);
      std::vector<double> value, mean, square;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const double g = gradient[i] / divisor;
        mean.push_back(0.9 * before.mean[i] + 0.1 * g);
        square.push_back(0.95 * before.square[i] + 0.05 * g * g);
        value.push_back(before.value[i] * (1 - 1e-2 * 0.1) -
                        1e-2 / (1 - std::pow(0.9, 3)) * mean.back() /
                            (std::sqrt(square.back()) / std::sqrt(1 - std::pow(0.95, 3)) + 1e-8));
      }
      const State after = step(kernels_, before, gradient, divisor);
      EXPECT_LT(distance(after.mean, mean, 0.1), 3e-7);
      EXPECT_LT(distance(after.square, square), 4e-7);
      EXPECT_LT(distance(after.value, value, 1), 3e-7);
    }
  }
}

TEST_P(AdamWKernelTest, HasTheSameBitsForAnElementWhereverItStands) {
  const State before = some_state(100);
  const auto gradient = random_floats(Index{100}, 4);
  const State whole = step(kernels_, before, gradient, 1);
  for (const Place place : {Place::kBegin, Place::kOdd})
    EXPECT_TRUE(same_bits(step(kernels_, before, gradient, 1, place).value, whole.value));
  for (std::size_t i = 0; i < 100; ++i) {
    const State one =
        step(kernels_, {{before.value[i]}, {before.mean[i]}, {before.square[i]}}, {gradient[i]}, 1);
    ASSERT_EQ(one.value[0], whole.value[i]);
    ASSERT_EQ(one.mean[0], whole.mean[i]);
    ASSERT_EQ(one.square[0], whole.square[i]);
  }
}

}  // namespace
}  // namespace sluice::ops
