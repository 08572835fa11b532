// Measures the end of a step on one thread, for the parameters of two Llamas: S (256 wide, 8
// layers, 7.9 million) and M (768 wide, 12 layers, 88 million).
//
//   bench/optim_bench --benchmark_filter=AdamW     an update, beside LibTorch's fused kernel
//   bench/optim_bench --benchmark_filter=Norm      the norm of the gradients, parameter by
//                                                 parameter
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "optim/gradient_norm.h"
#include "optim/optimizer.h"

namespace sluice {
namespace {

struct Sizes {
  std::int64_t hidden, layers, kv, ffn, vocabulary;
};
constexpr Sizes kS{256, 8, 128, 688, 4096}, kM{768, 12, 256, 2048, 8192};

std::vector<std::vector<std::int64_t>> shapes_of(const Sizes& size) {
  const auto [d, layers, kv, ffn, vocabulary] = size;
  std::vector<std::vector<std::int64_t>> shapes = {{vocabulary, d}, {vocabulary, d}, {d}};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    shapes.insert(shapes.end(),
                  {{d}, {d, d}, {kv, d}, {kv, d}, {d, d}, {d}, {ffn, d}, {ffn, d}, {d, ffn}});
  }
  return shapes;
}

std::vector<OptimizedParameter> parameters_of(const Sizes& size) {
  at::set_num_threads(1);
  std::vector<OptimizedParameter> parameters;
  for (const std::vector<std::int64_t>& shape : shapes_of(size)) {
    OptimizedParameter& parameter = parameters.emplace_back();
    parameter.name = std::to_string(parameters.size());
    parameter.value = at::full(shape, 0.02).requires_grad_();
    parameter.value.mutable_grad() = at::full(shape, 1e-3);
  }
  return parameters;
}

std::int64_t num_elements(const std::vector<OptimizedParameter>& parameters) {
  std::int64_t count = 0;
  for (const OptimizedParameter& parameter : parameters) count += parameter.value.numel();
  return count;
}

// An update reads value, moments and gradient, and writes all but the gradient.
void count_bytes(benchmark::State& state, std::int64_t elements, std::int64_t per_element) {
  state.SetBytesProcessed(state.iterations() * elements * per_element);
}

void AdamW(benchmark::State& state, const Sizes& size) {
  const auto parameters = parameters_of(size);
  const auto optimizer = make_optimizer({}, parameters);
  for (auto _ : state) optimizer->step(1e-6, 1.5);
  count_bytes(state, num_elements(parameters), 28);
}
BENCHMARK_CAPTURE(AdamW, S, kS)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(AdamW, M, kM)->Unit(benchmark::kMillisecond);

void AdamWOfLibTorch(benchmark::State& state, const Sizes& size) {
  const at::NoGradGuard no_grad;
  const auto parameters = parameters_of(size);
  std::vector<at::Tensor> values, gradients, means, squares, steps;
  for (const OptimizedParameter& parameter : parameters) {
    values.push_back(parameter.value.detach());
    gradients.push_back(parameter.value.grad());
    means.push_back(at::zeros_like(values.back()));
    squares.push_back(at::zeros_like(values.back()));
    steps.push_back(at::zeros({}));
  }
  const at::Tensor scale = at::full({}, 1.5);
  for (auto _ : state) {
    for (at::Tensor& step : steps) step += 1;
    at::_fused_adamw_(values, gradients, means, squares, {}, steps, 1e-6, 0.9, 0.999, 0.01, 1e-8,
                      /*amsgrad=*/false, /*maximize=*/false, scale);
  }
  count_bytes(state, num_elements(parameters), 28);
}
BENCHMARK_CAPTURE(AdamWOfLibTorch, S, kS)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(AdamWOfLibTorch, M, kM)->Unit(benchmark::kMillisecond);

void Norm(benchmark::State& state, const Sizes& size) {
  const auto parameters = parameters_of(size);
  for (auto _ : state) {
    std::vector<double> norms;
    for (const OptimizedParameter& parameter : parameters)
      norms.push_back(tensor_norm(parameter.value.grad()));
    benchmark::DoNotOptimize(combine_norms(norms));
  }
  count_bytes(state, num_elements(parameters), 4);
}
BENCHMARK_CAPTURE(Norm, S, kS)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Norm, M, kM)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
