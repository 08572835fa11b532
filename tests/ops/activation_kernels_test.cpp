// Compares activations with float64. An exponential is off by 2 units in the last place and a value
// or slope by a few. So 5e-7 of max(1, |x|) is always enough.
#include "ops/kernel_support.h"

namespace sluice::ops {
namespace {

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh,
                                       Activation::kRelu};
constexpr double kRootOfTwo = 1.41421356237309504880, kRootOfTwoPi = 2.50662827463100050242;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double tanh_argument(double x) { return 2 / kRootOfTwoPi * (x + 0.044715 * x * x * x); }

double value_of(Activation activation, double x) {
  if (activation == Activation::kSilu) return x * sigmoid_of(x);
  if (activation == Activation::kGelu) return x * 0.5 * std::erfc(-x / kRootOfTwo);
  if (activation == Activation::kGeluTanh) return 0.5 * x * (1 + std::tanh(tanh_argument(x)));
  return std::max(x, 0.0);
}

double slope_of(Activation activation, double x) {
  if (activation == Activation::kSilu) return sigmoid_of(x) * (1 + x * (1 - sigmoid_of(x)));
  if (activation == Activation::kGelu)
    return 0.5 * std::erfc(-x / kRootOfTwo) + x * std::exp(-x * x / 2) / kRootOfTwoPi;
  if (activation == Activation::kGeluTanh) {
    const double t = std::tanh(tanh_argument(x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 2 / kRootOfTwoPi * (1 + 3 * 0.044715 * x * x);
  }
  return x > 0 ? 1 : 0;
}

struct GatedResults {
  std::vector<float> y, d_gate, d_up;
};

GatedResults gated_of(const Kernels& kernels, Activation activation, Index rows, Index width,
                      Index gap, Place place = Place::kEnd) {
  const Index stride = width + gap, size = (rows - 1) * stride + width;
  Memory gate(random_floats(size, 1, 3), place), up(random_floats(size, 2), place),
      dy(random_floats(rows * width, 3), place), y(static_cast<std::size_t>(rows * width), place);
  kernels.gated(activation, rows, width, gate.data(), up.data(), stride, y.data());
  kernels.gated_gradient(activation, rows, width, gate.data(), up.data(), stride, dy.data());
  return {y.values(), gate.values(), up.values()};
}

using ActivationKernelTest = KernelTest;
SLUICE_AT_EVERY_LEVEL(ActivationKernelTest);

TEST_P(ActivationKernelTest, IsNearFloat64FromSmallToLarge) {
  std::vector<float> x;
  for (float value = -110; value < 110; value += 0.0137f) x.push_back(value);
  for (float value = 1e-30f; value < 1e30f; value *= 7) {
    x.push_back(value);
    x.push_back(-value);
  }
  const auto ones = std::vector<float>(x.size(), 1.0f);
  for (const Activation activation : kActivations) {
    std::vector<float> y(x.size()), slope = x;
    kernels_.activation(activation, static_cast<Index>(x.size()), x.data(), y.data());
    kernels_.activation_gradient(activation, static_cast<Index>(x.size()), slope.data(),
                                 ones.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double bound = 5e-7 * std::max(1.0, std::abs(static_cast<double>(x[i])));
      ASSERT_NEAR(y[i], value_of(activation, x[i]), bound) << x[i];
      // Terms of a slope grow up to |x| unless they are multiplied by 0.
      ASSERT_NEAR(slope[i], slope_of(activation, std::clamp(x[i], -100.0f, 100.0f)), 4e-6) << x[i];
    }
  }
}

TEST_P(ActivationKernelTest, KeepsTheDigitsOfTheLeftTailOfGelu) {
  for (const float x : {-1.0f, -3.0f, -5.0f, -8.0f, -12.0f}) {
    float y = 0;
    kernels_.activation(Activation::kGelu, 1, &x, &y);
    const double exact = value_of(Activation::kGelu, x);
    EXPECT_NEAR(y / exact, 1, 1e-5) << x;
  }
}

TEST_P(ActivationKernelTest, HandsOnWhatIsNoNumber) {
  for (const Activation activation : kActivations) {
    const float x = NAN;
    float y = 0;
    kernels_.activation(activation, 1, &x, &y);
    EXPECT_TRUE(std::isnan(y));
  }
}

TEST_P(ActivationKernelTest, GatesRowsOfAnyWidthThatLieApart) {
  for (const Activation activation : kActivations) {
    for (const Index width : {1, 7, 16, 33, 688}) {
      for (const Index gap : {0, 5}) {
        const Index rows = 3, stride = width + gap, size = (rows - 1) * stride + width;
        const auto gate = random_floats(size, 1, 3), up = random_floats(size, 2),
                   dy = random_floats(rows * width, 3);
        std::vector<double> y(dy.size()), d_gate(gate.begin(), gate.end()),
            d_up(up.begin(), up.end());
        for (Index row = 0; row < rows; ++row) {
          for (Index i = 0; i < width; ++i) {
            const Index at = row * stride + i, to = row * width + i;
            y[to] = value_of(activation, gate[at]) * up[at];
            d_gate[at] = slope_of(activation, gate[at]) * up[at] * dy[to];
            d_up[at] = value_of(activation, gate[at]) * dy[to];
          }
        }
        const GatedResults found = gated_of(kernels_, activation, rows, width, gap);
        EXPECT_LT(distance(found.y, y, 1), 1e-6) << width;
        EXPECT_LT(distance(found.d_gate, d_gate, 1), 4e-6) << width;
        EXPECT_LT(distance(found.d_up, d_up, 1), 1e-6) << width;
      }
    }
  }
}

TEST_P(ActivationKernelTest, HasTheSameBitsWhereverItsMemoryLies) {
  for (const Activation activation : kActivations) {
    const GatedResults end = gated_of(kernels_, activation, 3, 45, 2);
    for (const Place place : {Place::kBegin, Place::kOdd}) {
      const GatedResults other = gated_of(kernels_, activation, 3, 45, 2, place);
      EXPECT_TRUE(same_bits(end.y, other.y));
      EXPECT_TRUE(same_bits(end.d_gate, other.d_gate));
      EXPECT_TRUE(same_bits(end.d_up, other.d_up));
    }
  }
}

}  // namespace
}  // namespace sluice::ops
