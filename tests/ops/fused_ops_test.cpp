// Compares the operators of sluice/parts/ops.h, kernels and fallbacks, with LibTorch in float64.
// The bounds are those of the kernel tests.
#include "sluice/parts/ops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <vector>

#include "sluice/error.h"

namespace sluice {
namespace {

using Tensors = std::vector<at::Tensor>;
using Operator = std::function<at::Tensor(const Tensors&)>;

// Relative to the largest value, or absolute if that is 0: a query that sees one key has no
// gradient.
double distance(const at::Tensor& found, const at::Tensor& exact) {
  const double difference = (found.to(at::kDouble) - exact).abs().max().item<double>(),
               scale = exact.abs().max().item<double>();
  return scale > 1e-12 ? difference / scale : difference;
}

Tensors with_gradients(const Operator& op, const Tensors& inputs, const at::Tensor& gradient) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  const at::Tensor y = op(leaves);
  Tensors all = torch::autograd::grad({y}, leaves, {gradient.to(y.scalar_type())});
  all.insert(all.begin(), y.detach());
  return all;
}

void expect_near(const Operator& op, const Operator& exact_op, const Tensors& inputs) {
  Tensors exact_inputs;
  for (const at::Tensor& input : inputs) exact_inputs.push_back(input.to(at::kDouble));
  const at::Tensor gradient = at::randn(exact_op(exact_inputs).sizes());
  const Tensors exact = with_gradients(exact_op, exact_inputs, gradient),
                found = with_gradients(op, inputs, gradient);
  EXPECT_EQ(found[0].scalar_type(), inputs[0].scalar_type());
  EXPECT_EQ(found[0].sizes(), exact[0].sizes());
  EXPECT_LT(distance(found[0], exact[0]), 3e-6);
  for (std::size_t i = 1; i < exact.size(); ++i) EXPECT_LT(distance(found[i], exact[i]), 5e-6);
}

at::Tensor exact_attention(const Tensors& in, const FusedAttentionOptions& options) {
  const at::Tensor q = in[0].transpose(1, 2);
  const std::int64_t group = q.size(1) / in[1].size(2), length = q.size(2);
  const at::Tensor k = in[1].transpose(1, 2).repeat_interleave(group, 1),
                   v = in[2].transpose(1, 2).repeat_interleave(group, 1);
  at::Tensor s = at::matmul(q, k.transpose(2, 3)) *
                 options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  if (options.cap > 0) s = at::tanh(s / options.cap) * options.cap;
  at::Tensor unseen = at::ones({q.size(0), 1, length, length}, at::kBool);
  for (std::int64_t b = 0; b < q.size(0); ++b) {
    for (std::int64_t l = 0; l < length; ++l) {
      std::int64_t first = 0;
      if (options.first_key.defined()) first = options.first_key[b][l].item<std::int64_t>();
      if (options.window > 0) first = std::max(first, l - options.window + 1);
      unseen[b][0][l].slice(0, first, l + 1).fill_(false);
    }
  }
  return at::matmul(at::softmax(s.masked_fill(unseen, -INFINITY), -1), v).transpose(1, 2);
}

void expect_attention_near(const Tensors& inputs, const FusedAttentionOptions& options = {}) {
  expect_near([&](const Tensors& in) { return fused_attention(in[0], in[1], in[2], options); },
              [&](const Tensors& in) { return exact_attention(in, options); }, inputs);
}

Tensors heads(std::int64_t batch, std::int64_t length, std::int64_t h, std::int64_t g,
              std::int64_t e) {
  return {at::randn({batch, length, h, e}), at::randn({batch, length, g, e}),
          at::randn({batch, length, g, e})};
}

at::Tensor documents() {
  return at::tensor({0, 0, 2, 2, 2, 5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7}).view({2, 10});
}

TEST(FusedAttentionTest, IsNearFloat64) {
  at::manual_seed(1);
  expect_attention_near(heads(2, 50, 4, 2, 32));
  expect_attention_near(heads(1, 130, 3, 1, 64));
  expect_attention_near(heads(3, 1, 2, 2, 16));
  expect_attention_near(heads(1, 40, 2, 2, 80), {.scale = 0.3});
}

TEST(FusedAttentionTest, SeesWindowsDocumentsAndCaps) {
  at::manual_seed(2);
  expect_attention_near(heads(2, 60, 4, 2, 32), {.window = 7});
  expect_attention_near(heads(2, 10, 4, 2, 32), {.first_key = documents()});
  expect_attention_near(heads(2, 10, 4, 2, 32), {.window = 3, .first_key = documents()});
  expect_attention_near(heads(2, 30, 4, 1, 16), {.cap = 2});
}

TEST(FusedAttentionTest, ReadsColumnsOfOneMatrixWhereTheyLie) {
  at::manual_seed(3);
  const at::Tensor qkv = at::randn({2, 50, 8 * 32});
  const Operator parts = [](const Tensors& in) {
    const at::Tensor x = in[0].view({2, 50, 8, 32});
    return fused_attention(x.narrow(2, 0, 4), x.narrow(2, 4, 2), x.narrow(2, 6, 2));
  };
  const Operator exact = [](const Tensors& in) {
    const at::Tensor x = in[0].view({2, 50, 8, 32});
    return exact_attention({x.narrow(2, 0, 4), x.narrow(2, 4, 2), x.narrow(2, 6, 2)}, {});
  };
  expect_near(parts, exact, {qkv});
}

TEST(FusedAttentionTest, TakesEveryOtherViewToo) {
  at::manual_seed(4);
  Tensors inputs = heads(2, 20, 4, 2, 32);
  const Tensors plain = inputs;
  inputs[0] = inputs[0].transpose(1, 2).contiguous().transpose(1, 2);
  inputs[1] = at::stack({inputs[1], inputs[1]}, -1).select(-1, 1);
  EXPECT_TRUE(fused_attention(inputs[0], inputs[1], inputs[2])
                  .equal(fused_attention(plain[0], plain[1], plain[2])));
  expect_attention_near(inputs);
}

TEST(FusedAttentionTest, RunsOnOperatorsWhereKernelsDoNotReach) {
  at::manual_seed(5);
  expect_attention_near(heads(2, 20, 4, 2, 24));
  expect_attention_near(heads(2, 10, 4, 2, 24), {.cap = 3, .window = 4, .first_key = documents()});
  Tensors doubles = heads(2, 20, 4, 2, 32);
  for (at::Tensor& tensor : doubles) tensor = tensor.to(at::kDouble);
  expect_attention_near(doubles);
}

TEST(FusedAttentionTest, HasTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  at::manual_seed(6);
  const Tensors in = heads(3, 70, 4, 2, 32);
  const auto run = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return with_gradients([](const Tensors& x) { return fused_attention(x[0], x[1], x[2]); },
                          {q, k, v}, at::ones_like(q));
  };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensors one = run(in[0], in[1], in[2]);
  const Tensors part = run(in[0].narrow(0, 1, 1), in[1].narrow(0, 1, 1), in[2].narrow(0, 1, 1));
  at::set_num_threads(3);
  const Tensors three = run(in[0], in[1], in[2]);
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(one[i].equal(three[i]));
    EXPECT_TRUE(one[i].narrow(0, 1, 1).equal(part[i]));
  }
}

TEST(FusedAttentionTest, RefusesShapesAndDocumentsThatDoNotFit) {
  const Tensors in = heads(2, 10, 4, 2, 16);
  const auto what = [&](const at::Tensor& k, const FusedAttentionOptions& options) {
    try {
      fused_attention(in[0], k, k, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(what(at::randn({2, 10, 3, 16}), {}),
            "q [2, 10, 4, 16], k [2, 10, 3, 16] and v [2, 10, 3, 16] do not fit; fused_attention; "
            "give q [B, L, H, E] and k, v [B, L, G, E], H a multiple of G");
  EXPECT_EQ(what(in[1], {.window = -1}),
            "the window or the cap is negative; fused_attention; give 0 for none");
  EXPECT_EQ(what(in[1], {.first_key = documents().flip(1)}),
            "first_key is not ascending within [0, l]; fused_attention; give each token the first "
            "token of its document");
  EXPECT_EQ(what(in[1], {.first_key = at::zeros({2, 10})}),
            "first_key has the sizes [2, 10] and the type Float; fused_attention; give int64 or "
            "int32 [B, L]");
}

at::Tensor exact_rms_norm(const Tensors& in, double offset) {
  return in[0] * at::rsqrt(in[0].square().mean(-1, true) + 1e-5) * (in[1] + offset);
}

TEST(FusedRmsNormTest, IsNearFloat64InEveryTypeAndView) {
  at::manual_seed(7);
  for (const double offset : {0.0, 1.0}) {
    const Operator op = [&](const Tensors& in) {
      return fused_rms_norm(in[0], in[1], 1e-5, offset);
    };
    const Operator exact = [&](const Tensors& in) { return exact_rms_norm(in, offset); };
    expect_near(op, exact, {at::randn({2, 5, 33}), at::randn({33})});
    expect_near(op, exact, {at::randn({256}), at::randn({256})});
    expect_near(op, exact, {at::randn({7, 64}).t(), at::randn({7})});
    expect_near(op, exact, {at::randn({3, 8}, at::kDouble), at::randn({8}, at::kDouble)});
  }
  EXPECT_THROW(fused_rms_norm(at::randn({2, 3}), at::randn({2}), 1e-5), Error);
}

at::Tensor exact_gated(const std::string& word, const Tensors& in) {
  if (word == "silu") return at::silu(in[0]) * in[1];
  if (word == "gelu") return at::gelu(in[0]) * in[1];
  if (word == "gelu_tanh") return at::gelu(in[0], "tanh") * in[1];
  return at::relu(in[0]) * in[1];
}

TEST(FusedGatedTest, IsNearFloat64InEveryTypeAndView) {
  at::manual_seed(8);
  for (const std::string word : {"silu", "gelu", "gelu_tanh", "relu"}) {
    const Operator op = [&](const Tensors& in) { return fused_gated(word, in[0], in[1]); };
    const Operator exact = [&](const Tensors& in) { return exact_gated(word, in); };
    expect_near(op, exact, {at::randn({2, 5, 33}), at::randn({2, 5, 33})});
    const at::Tensor both = at::randn({6, 32});
    expect_near(op, exact, {both.narrow(1, 0, 16), both.narrow(1, 16, 16)});
    expect_near(op, exact, {at::randn({9}, at::kDouble), at::randn({9}, at::kDouble)});
  }
}

TEST(FusedGatedTest, RefusesUnknownActivationsAndShapesThatDiffer) {
  const at::Tensor x = at::randn({2, 3});
  try {
    fused_gated("silo", x, x);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "unknown activation 'silo'; fused_gated; did you mean 'silu'?");
  }
  EXPECT_THROW(fused_gated("silu", x, at::randn({3, 2})), Error);
}

Tensors second_gradients(const Operator& op, const Tensors& inputs, const at::Tensor& gradient) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  const at::Tensor y = op(leaves);
  const Tensors first = torch::autograd::grad({y}, leaves, {gradient.to(y.scalar_type())},
                                              /*retain_graph=*/true, /*create_graph=*/true);
  at::Tensor total = first[0].square().sum();
  for (std::size_t i = 1; i < first.size(); ++i) total = total + first[i].square().sum();
  return torch::autograd::grad({total}, leaves);
}

void expect_second_gradients_near(const Operator& op, const Operator& exact,
                                  const Tensors& inputs) {
  Tensors doubles;
  for (const at::Tensor& input : inputs) doubles.push_back(input.to(at::kDouble));
  const at::Tensor gradient = at::randn(exact(doubles).sizes());
  const Tensors found = second_gradients(op, inputs, gradient),
                expected = second_gradients(exact, doubles, gradient);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LT(distance(found[i], expected[i]), 1e-5);
}

TEST(FusedOpsTest, CanBeDifferentiatedTwice) {
  at::manual_seed(9);
  expect_second_gradients_near(
      [](const Tensors& in) { return fused_attention(in[0], in[1], in[2], {.cap = 5}); },
      [](const Tensors& in) { return exact_attention(in, {.cap = 5}); }, heads(1, 12, 4, 2, 16));
  expect_second_gradients_near([](const Tensors& in) { return fused_rms_norm(in[0], in[1], 1e-5); },
                               [](const Tensors& in) { return exact_rms_norm(in, 0); },
                               {at::randn({3, 17}), at::randn({17})});
  expect_second_gradients_near([](const Tensors& in) { return fused_gated("silu", in[0], in[1]); },
                               [](const Tensors& in) { return exact_gated("silu", in); },
                               {at::randn({3, 17}), at::randn({3, 17})});
}

TEST(FusedOpsTest, GiveNoGradientToWhatWantsNone) {
  const at::Tensor x = at::randn({3, 17}), weight = at::randn({17}).requires_grad_();
  fused_rms_norm(x, weight, 1e-5).sum().backward();
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_FALSE(x.grad().defined());
  const at::Tensor q = at::randn({1, 5, 2, 16}).requires_grad_(), k = at::randn({1, 5, 2, 16});
  fused_attention(q, k, k).sum().backward();
  EXPECT_TRUE(q.grad().defined());
  EXPECT_FALSE(fused_attention(k, k, k).requires_grad());
}

}  // namespace
}  // namespace sluice
