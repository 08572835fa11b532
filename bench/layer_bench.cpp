// Measures layers and their random numbers on one thread.
//
//   bench/layer_bench --benchmark_filter=Keyed     initial weights beside torch's normal_; scopes
//   bench/layer_bench --benchmark_filter=Llama     parts of a decoder layer, forward and backward
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include "layer/initialize_chunks.h"
#include "model/modules.h"
#include "model/rotary.h"
#include "sluice/causal_lm.h"
#include "sluice/layer.h"
#include "sluice/parts/chunk.h"

namespace sluice {
namespace {

void one_thread() {
  at::set_num_threads(1);
  at::get_num_threads();
}

void KeyedNormal(benchmark::State& state) {
  one_thread();
  at::Tensor values = at::empty({1 << 22});
  for (auto _ : state) keyed_normal_(values, 1, "w", 0.0, 1.0);
  state.SetItemsProcessed(state.iterations() * values.numel());
}
BENCHMARK(KeyedNormal);

void KeyedBesideTorchNormal(benchmark::State& state) {
  one_thread();
  at::Tensor values = at::empty({1 << 22});
  for (auto _ : state) values.normal_();
  state.SetItemsProcessed(state.iterations() * values.numel());
}
BENCHMARK(KeyedBesideTorchNormal);

void KeyedScopeWithoutDraws(benchmark::State& state) {
  std::int64_t step = 0;
  for (auto _ : state) const KeyedRandomScope scope(1, ++step, "model.layers.17", 3);
}
BENCHMARK(KeyedScopeWithoutDraws);

void KeyedScopeWithOneDraw(benchmark::State& state) {
  std::int64_t step = 0;
  at::Tensor values = at::empty({4});
  for (auto _ : state) {
    const KeyedRandomScope scope(1, ++step, "model.layers.17", 3);
    values.uniform_();
  }
}
BENCHMARK(KeyedScopeWithOneDraw);

ModelSpec llama(std::int64_t width) {
  const std::string d = std::to_string(width);
  return parse_model_spec(
      R"({"model_type": "llama", "vocab_size": 256, "num_hidden_layers": 1, "hidden_size": )" + d +
          R"(, "intermediate_size": )" + std::to_string(width * 8 / 3) +
          R"(, "num_attention_heads": )" + std::to_string(width / 32) +
          R"(, "num_key_value_heads": )" + std::to_string(width / 96) + "}",
      "bench");
}

// Input [2, 256, width] with width = range(0).
void LlamaLayer(benchmark::State& state) {
  one_thread();
  std::vector<LayerSpec> layers = make_layers(llama(state.range(0)));
  Chunk chunk({layers[1]}, 1, {"hidden"}, {"hidden"});
  initialize_parameters(chunk, 1);
  const at::Tensor x = at::randn({2, 256, state.range(0)}).requires_grad_(),
                   gradient = at::randn_like(x);
  const Values batch{{"attention_mask", {}}, {"position_ids", {}}};
  for (auto _ : state)
    chunk.forward({{"hidden", x}}, batch, 0, 1, 0).get("hidden").backward(gradient);
}
BENCHMARK(LlamaLayer)->Arg(192)->Arg(768)->Unit(benchmark::kMillisecond);

void LlamaNorm(benchmark::State& state) {
  one_thread();
  RmsNorm norm(state.range(0), 1e-5, {});
  const at::Tensor x = at::randn({2, 256, state.range(0)}).requires_grad_(),
                   gradient = at::randn_like(x);
  for (auto _ : state) norm.forward(x).backward(gradient);
}
BENCHMARK(LlamaNorm)->Arg(192)->Arg(768)->Unit(benchmark::kMillisecond);

void LlamaRotary(benchmark::State& state) {
  one_thread();
  RotaryTable table(32, {});
  const auto [cos, sin] = table.get(256, at::kCPU);
  const at::Tensor x = at::randn({2, 256, state.range(0)}).requires_grad_(),
                   gradient = at::randn_like(x);
  for (auto _ : state)
    rotate(split_heads(x, 32), cos, sin).transpose(1, 2).flatten(2).backward(gradient);
}
BENCHMARK(LlamaRotary)->Arg(192)->Arg(768)->Unit(benchmark::kMillisecond);

void LlamaAttention(benchmark::State& state) {
  one_thread();
  const std::int64_t heads = state.range(0) / 32;
  const at::Tensor q = at::randn({2, heads, 256, 32}).requires_grad_(),
                   k = at::randn({2, heads / 3, 256, 32}).requires_grad_();
  const at::Tensor v = at::randn_like(k).requires_grad_(),
                   gradient = at::randn({2, 256, state.range(0)});
  for (auto _ : state) attention(q, k, v, {}, {}).backward(gradient);
}
BENCHMARK(LlamaAttention)->Arg(192)->Arg(768)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
