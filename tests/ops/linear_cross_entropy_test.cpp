// Compares head and loss computed in blocks of classes with whole logits, in float64 and float32.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>

#include "ops/linear_cross_entropy_block.h"
#include "sluice/error.h"
#include "support/own_products.h"

namespace sluice::ops {
namespace {

struct Settings {
  double divisor = 1, cap = 0;
  std::int64_t block = 64;
};

struct Problem {
  at::Tensor x, weight, labels;
};

Problem problem(std::int64_t rows, std::int64_t in, std::int64_t classes, double size = 1,
                std::uint64_t seed = 0) {
  at::manual_seed(static_cast<std::uint64_t>(rows * 31 + in * 7 + classes) + 100'000 * seed);
  Problem p{at::randn({rows, in}) * size, at::randn({classes, in}) * 0.3,
            at::randint(classes, {rows}, at::kLong)};
  p.labels[0] = classes - 1;
  if (rows > 2) p.labels[rows / 2] = -100;
  return p;
}

struct Result {
  at::Tensor loss, dx, dweight;
};

at::Tensor whole(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels,
                 const Settings& s) {
  at::Tensor logits = at::linear(x, weight) / s.divisor;
  if (s.cap > 0) logits = at::tanh(logits / s.cap) * s.cap;
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
}

at::Tensor by_blocks(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels,
                     const Settings& s) {
  return linear_cross_entropy_block(x,
                                    {.linear = {weight},
                                     .scale = static_cast<float>(1 / s.divisor),
                                     .cap = static_cast<float>(s.cap),
                                     .block = s.block},
                                    labels);
}

template <typename Loss>
Result run(const Loss& loss, const Problem& p, const Settings& s, at::ScalarType type) {
  const at::Tensor x = p.x.to(type).detach().clone().requires_grad_(),
                   weight = p.weight.to(type).detach().clone().requires_grad_();
  const at::Tensor value = loss(x, weight, p.labels, s);
  const auto gradients =
      torch::autograd::grad({value}, {x, weight}, {at::scalar_tensor(0.25, value.options())});
  return {value.detach(), gradients[0], gradients[1]};
}

double squared_distance(const at::Tensor& found, const at::Tensor& exact) {
  return std::pow((found.to(at::kDouble) - exact).norm().item<double>(), 2);
}

// Squared distances to float64, summed over seeds, because one seed is just one sample of rounding
// errors.
struct Distances {
  double blocks = 0, whole = 0, size = 0;
  void add(const at::Tensor& of_blocks, const at::Tensor& of_whole, const at::Tensor& exact) {
    blocks += squared_distance(of_blocks, exact);
    whole += squared_distance(of_whole, exact);
    size += std::pow(exact.norm().item<double>(), 2);
  }
  void expect_alike(const std::string& what) const {
    EXPECT_LE(std::sqrt(blocks), 2 * std::sqrt(whole) + 3e-7 * std::sqrt(size)) << what;
  }
};

void expect_as_near_as_whole_logits(const std::function<Problem(std::uint64_t seed)>& problem_of,
                                    const Settings& s, const std::string& what) {
  constexpr std::uint64_t kSeeds = 32;
  Distances loss, dx, dweight;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Problem p = problem_of(seed);
    const Result exact = run(whole, p, s, at::kDouble), plain = run(whole, p, s, at::kFloat),
                 found = run(by_blocks, p, s, at::kFloat);
    loss.add(found.loss, plain.loss, exact.loss);
    dx.add(found.dx, plain.dx, exact.dx);
    dweight.add(found.dweight, plain.dweight, exact.dweight);
  }
  loss.expect_alike(what + " loss");
  dx.expect_alike(what + " dx");
  dweight.expect_alike(what + " dweight");
}

TEST(LinearCrossEntropyTest, IsAsNearToFloat64AsWholeLogits) {
  for (const auto& [rows, classes] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 64}, {3, 65}, {130, 500}, {70, 2049}}) {
    for (const std::int64_t block : {64, 500, 4096, 0}) {
      expect_as_near_as_whole_logits(
          [rows = rows, classes = classes](std::uint64_t seed) {
            return problem(rows, 33, classes, 1, seed);
          },
          {.block = block},
          std::to_string(rows) + " x " + std::to_string(classes) + " / " + std::to_string(block));
    }
  }
}

TEST(LinearCrossEntropyTest, ScalesAndCapsLogits) {
  const auto problem_of = [](std::uint64_t seed) { return problem(40, 24, 300, 4, seed); };
  expect_as_near_as_whole_logits(problem_of, {.divisor = 8}, "scaled");
  expect_as_near_as_whole_logits(problem_of, {.cap = 5}, "capped");
  for (const std::int64_t block : {64, 0}) {
    expect_as_near_as_whole_logits(problem_of, {.divisor = 0.5, .cap = 30, .block = block},
                                   "scaled and capped");
  }
}

TEST(LinearCrossEntropyTest, StaysExactWhereTheLargestLogitComesLast) {
  expect_as_near_as_whole_logits(
      [](std::uint64_t seed) {
        Problem p = problem(20, 16, 400, 1, seed);
        p.weight.mul_(at::arange(400).unsqueeze(1) / 20.0);
        return p;
      },
      {.block = 16}, "growing");
}

TEST(LinearCrossEntropyTest, WithoutACountedLabelIsZeroWithAGraph) {
  Problem p = problem(5, 8, 100);
  p.labels.fill_(-100);
  const Result found = run(by_blocks, p, {}, at::kFloat);
  EXPECT_EQ(found.loss.item<double>(), 0);
  EXPECT_TRUE(at::equal(found.dx, at::zeros_like(p.x)));
  EXPECT_TRUE(at::equal(found.dweight, at::zeros_like(p.weight)));
}

TEST(LinearCrossEntropyTest, HalvesOneAfterTheOtherHaveTheBitsOfBothTogether) {
  for (const Settings& settings : {Settings{}, Settings{.block = 0}}) {
    const Problem p = problem(70, 16, 300);
    const Result together = run(by_blocks, p, settings, at::kFloat);
    const at::Tensor x = p.x.clone().requires_grad_(), weight = p.weight.clone().requires_grad_();
    const at::Tensor loss = by_blocks(x, weight, p.labels, settings);
    const at::Tensor one = at::scalar_tensor(0.25);
    const auto dx = torch::autograd::grad({loss}, {x}, {one}, /*retain_graph=*/true);
    const auto dweight = torch::autograd::grad({loss}, {weight}, {one});
    EXPECT_TRUE(at::equal(dx[0], together.dx));
    EXPECT_TRUE(at::equal(dweight[0], together.dweight));
  }
}

TEST(LinearCrossEntropyTest, WhatIsFrozenChangesNoBitsOfTheRest) {
  for (const Settings& settings : {Settings{}, Settings{.block = 0}}) {
    const Problem p = problem(70, 16, 300);
    const Result both = run(by_blocks, p, settings, at::kFloat);
    const at::Tensor x = p.x.clone().requires_grad_(), weight = p.weight.clone().requires_grad_();
    const at::Tensor one = at::scalar_tensor(0.25);
    const at::Tensor of_x = by_blocks(x, p.weight, p.labels, settings),
                     of_weight = by_blocks(p.x, weight, p.labels, settings);
    EXPECT_TRUE(at::equal(of_x, both.loss));
    EXPECT_TRUE(at::equal(of_weight, both.loss));
    EXPECT_TRUE(at::equal(torch::autograd::grad({of_x}, {x}, {one})[0], both.dx));
    EXPECT_TRUE(at::equal(torch::autograd::grad({of_weight}, {weight}, {one})[0], both.dweight));
    const at::NoGradGuard no_grad;
    const at::Tensor value = by_blocks(x, weight, p.labels, settings);
    EXPECT_TRUE(at::equal(value, both.loss));
    EXPECT_FALSE(value.requires_grad());
  }
}

// Calls expect(gradient of a row alone, gradient of the same row among others).
template <typename Expect>
void for_rows_alone(const Expect& expect) {
  const Problem p = problem(70, 16, 300);
  const Result all = run(by_blocks, p, {}, at::kFloat);
  for (const std::int64_t row : {0, 34, 69}) {
    const Problem alone{p.x.narrow(0, row, 1), p.weight, p.labels.narrow(0, row, 1)};
    SCOPED_TRACE(row);
    expect(run(by_blocks, alone, {}, at::kFloat).dx[0], all.dx[row]);
  }
}

TEST(LinearCrossEntropyTest, RowsHaveTheSameGradientUpToRoundingWhateverIsBesideThem) {
  for_rows_alone([](const at::Tensor& alone, const at::Tensor& matched_only_by_general_patterns) {
    EXPECT_TRUE(at::allclose(alone, matched_only_by_general_patterns, 1e-5, 1e-6));
  });
}

TEST(LinearCrossEntropyTest, WithOwnProductsRowsHaveTheSameGradientWhateverIsBesideThem) {
  SLUICE_NEEDS_OWN_PRODUCTS();
  for_rows_alone([](const at::Tensor& alone, const at::Tensor& matched_only_by_general_patterns) {
    EXPECT_TRUE(at::equal(alone, matched_only_by_general_patterns));
  });
}

TEST(LinearCrossEntropyTest, SeveralThreadsComputeTheSame) {
  const Problem p = problem(300, 16, 300);
  const Result one = run(by_blocks, p, {}, at::kFloat);
  at::set_num_threads(3);
  const Result three = run(by_blocks, p, {}, at::kFloat);
  at::set_num_threads(1);
  EXPECT_TRUE(at::allclose(three.loss, one.loss, 1e-6));
  EXPECT_TRUE(at::allclose(three.dx, one.dx, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(three.dweight, one.dweight, 1e-5, 1e-6));
}

TEST(LinearCrossEntropyTest, ASecondBackwardIsRefused) {
  const Problem p = problem(4, 8, 100);
  const at::Tensor x = p.x.clone().requires_grad_(), weight = p.weight.clone().requires_grad_();
  const at::Tensor loss = by_blocks(x, weight, p.labels, {});
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), Error);
}

}  // namespace
}  // namespace sluice::ops
