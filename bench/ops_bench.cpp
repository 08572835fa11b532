// Compares kernels with LibTorch's operators on one thread, at the sizes of two models. Argument 0
// is S: hidden 256, 8 heads of 32 channels with 4 key heads, feed-forward 688, 4,096 tokens, 256
// per sequence. Argument 1 is M: hidden 768, 12 heads of 64 channels with 4 key heads, feed-forward
// 2,048, 8,192 tokens, 512 per sequence.
//
//   bench/ops_bench --benchmark_filter='Attention'
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/kernels/kernels.h"
#include "sluice/parts/ops.h"

namespace sluice {
namespace {

struct Sizes {
  std::int64_t hidden, heads, key_heads, head_dim, ffn, vocabulary, length;
};

Sizes sizes_of(const benchmark::State& state) {
  at::set_num_threads(1);
  at::get_num_threads();
  return state.range(0) == 0 ? Sizes{256, 8, 4, 32, 688, 4096, 256}
                             : Sizes{768, 12, 4, 64, 2048, 8192, 512};
}

using Tensors = std::vector<at::Tensor>;

template <typename Forward>
void forward_and_backward(benchmark::State& state, const Tensors& inputs, const Forward& forward) {
  const at::Tensor gradient = at::randn_like(forward());
  for (auto _ : state) {
    const Tensors gradients = torch::autograd::grad({forward()}, inputs, {gradient});
    benchmark::DoNotOptimize(gradients[0].const_data_ptr<float>());
  }
}

Tensors queries_keys_values(const Sizes& s) {
  return {at::randn({1, s.length, s.heads, s.head_dim}).requires_grad_(),
          at::randn({1, s.length, s.key_heads, s.head_dim}).requires_grad_(),
          at::randn({1, s.length, s.key_heads, s.head_dim}).requires_grad_()};
}

void Attention(benchmark::State& state) {
  const Tensors x = queries_keys_values(sizes_of(state));
  forward_and_backward(state, x, [&] { return fused_attention(x[0], x[1], x[2]); });
}
void AttentionOfTorch(benchmark::State& state) {
  const Tensors x = queries_keys_values(sizes_of(state));
  forward_and_backward(state, x, [&] {
    return at::scaled_dot_product_attention(x[0].transpose(1, 2), x[1].transpose(1, 2),
                                            x[2].transpose(1, 2), {}, 0.0, true, std::nullopt,
                                            true);
  });
}

Tensors rows_and_weight(const Sizes& s) {
  return {at::randn({s.length, s.hidden}).requires_grad_(), at::randn({s.hidden}).requires_grad_()};
}

void RmsNorm(benchmark::State& state) {
  const Tensors x = rows_and_weight(sizes_of(state));
  forward_and_backward(state, x, [&] { return fused_rms_norm(x[0], x[1], 1e-5); });
}
void RmsNormOfTorch(benchmark::State& state) {
  const Tensors x = rows_and_weight(sizes_of(state));
  const std::int64_t hidden = x[1].size(0);
  forward_and_backward(state, x, [&] { return at::rms_norm(x[0], hidden, x[1], 1e-5); });
}

Tensors gate_and_up(const Sizes& s) {
  return {at::randn({s.length, s.ffn}).requires_grad_(),
          at::randn({s.length, s.ffn}).requires_grad_()};
}

void GatedSilu(benchmark::State& state) {
  const Tensors x = gate_and_up(sizes_of(state));
  forward_and_backward(state, x, [&] { return fused_gated("silu", x[0], x[1]); });
}
void GatedSiluOfTorch(benchmark::State& state) {
  const Tensors x = gate_and_up(sizes_of(state));
  forward_and_backward(state, x, [&] { return at::silu(x[0]) * x[1]; });
}
void GatedGelu(benchmark::State& state) {
  const Tensors x = gate_and_up(sizes_of(state));
  forward_and_backward(state, x, [&] { return fused_gated("gelu_tanh", x[0], x[1]); });
}
void GatedGeluOfTorch(benchmark::State& state) {
  const Tensors x = gate_and_up(sizes_of(state));
  forward_and_backward(state, x, [&] { return at::gelu(x[0], "tanh") * x[1]; });
}

// The kernel replaces logits by gradients in place, so each iteration starts from the previous
// gradients.
void CrossEntropy(benchmark::State& state) {
  const Sizes s = sizes_of(state);
  const at::Tensor logits = at::randn({s.length, s.vocabulary}),
                   labels = at::randint(s.vocabulary, {s.length}, at::kLong);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        ops::kernels().cross_entropy(s.length, s.vocabulary, logits.mutable_data_ptr<float>(),
                                     labels.const_data_ptr<std::int64_t>(), 1.0F));
  }
}
void CrossEntropyOfTorch(benchmark::State& state) {
  const Sizes s = sizes_of(state);
  const at::Tensor logits = at::randn({s.length, s.vocabulary}).requires_grad_(),
                   labels = at::randint(s.vocabulary, {s.length}, at::kLong);
  for (auto _ : state) {
    const Tensors gradients =
        torch::autograd::grad({at::cross_entropy_loss(logits, labels)}, {logits});
    benchmark::DoNotOptimize(gradients[0].const_data_ptr<float>());
  }
}

// Four vectors of the size of one decoder layer's weights.
Tensors weights_of_a_layer(const Sizes& s) {
  const std::int64_t size =
      s.hidden * (s.heads + 2 * s.key_heads + s.heads) * s.head_dim + 3 * s.hidden * s.ffn;
  return {at::randn({size}), at::randn({size}), at::zeros({size}), at::zeros({size})};
}

void AdamW(benchmark::State& state) {
  const Tensors x = weights_of_a_layer(sizes_of(state));
  const ops::AdamWCall call = {.size = x[0].numel(),
                               .value = x[0].mutable_data_ptr<float>(),
                               .mean = x[2].mutable_data_ptr<float>(),
                               .square = x[3].mutable_data_ptr<float>(),
                               .gradient = x[1].const_data_ptr<float>(),
                               .lr = 1e-3,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .eps = 1e-8,
                               .weight_decay = 0.1};
  for (auto _ : state) ops::kernels().adamw(call);
}
void AdamWOfTorch(benchmark::State& state) {
  const Tensors x = weights_of_a_layer(sizes_of(state));
  const at::Tensor step = at::ones({});
  for (auto _ : state)
    at::_fused_adamw_({x[0]}, {x[1]}, {x[2]}, {x[3]}, {}, {step}, 1e-3, 0.9, 0.95, 0.1, 1e-8,
                      /*amsgrad=*/false, /*maximize=*/false);
}

#define SLUICE_PAIR(Name)                                         \
  BENCHMARK(Name)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond); \
  BENCHMARK(Name##OfTorch)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond)

SLUICE_PAIR(Attention);
SLUICE_PAIR(RmsNorm);
SLUICE_PAIR(GatedSilu);
SLUICE_PAIR(GatedGelu);
SLUICE_PAIR(CrossEntropy);
SLUICE_PAIR(AdamW);

}  // namespace
}  // namespace sluice
