// Measures what a node of an exported graph costs above the same call in C++. Runs forwards on one
// thread, for layers of a small decoder and for operators called through the boxed interface.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph_program.h"
#include "sluice/layer.h"
#include "support/graph_builder.h"

namespace sluice::test {
namespace {

using Tensors = std::vector<at::Tensor>;
using Items = GraphBuilder::Items;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWidth = 32, kHeads = 2, kHead = 16, kInner = 64, kNumLayers = 4;

const std::vector<std::pair<std::string, std::vector<std::int64_t>>> kWeights{
    {"norm1", {kWidth}},        {"q", {kWidth, kWidth}},  {"k", {kWidth, kWidth}},
    {"v", {kWidth, kWidth}},    {"o", {kWidth, kWidth}},  {"norm2", {kWidth}},
    {"gate", {kInner, kWidth}}, {"up", {kInner, kWidth}}, {"down", {kWidth, kInner}},
};

struct Calls {
  const Tensors& weights;
  std::size_t next = 0;

  const at::Tensor& weight() { return weights[next++]; }
  at::Tensor norm(const at::Tensor& x) {
    const at::Tensor wide = x.to(at::kFloat);
    const at::Tensor scale = at::rsqrt(wide.pow(2).mean(-1, true) + 1e-6);
    const at::Tensor normal = (wide * scale).to(at::kFloat);
    return weight() * normal;
  }
  at::Tensor heads(const at::Tensor& x) {
    return at::linear(x, weight()).view({x.size(0), x.size(1), kHeads, kHead}).transpose(1, 2);
  }
  at::Tensor layer(const at::Tensor& x) {
    const at::Tensor in = norm(x);
    const at::Tensor q = heads(in), k = heads(in), v = heads(in);
    const at::Tensor attended = at::scaled_dot_product_attention(q, k, v, {}, 0, true);
    const at::Tensor joined = attended.transpose(1, 2).reshape({x.size(0), x.size(1), kWidth});
    const at::Tensor middle = x + at::linear(joined, weight());
    const at::Tensor inner = norm(middle);
    const at::Tensor gate = at::silu(at::linear(inner, weight()));
    const at::Tensor gated = gate * at::linear(inner, weight());
    return middle + at::linear(gated, weight());
  }
};

at::Tensor run_calls(const at::Tensor& x, const Tensors& weights) {
  Calls calls{weights};
  at::Tensor hidden = x;
  for (int i = 0; i < kNumLayers; ++i) hidden = calls.layer(hidden);
  return hidden;
}

class DecoderGraph {
 public:
  explicit DecoderGraph(int num_layers = kNumLayers) {
    builder.batch("x", {"s0", "s1", std::to_string(kWidth)});
    builder.number("rows", "s0");
    builder.number("length", "s1");
    std::string hidden = "x";
    for (int i = 0; i < num_layers; ++i) {
      between.push_back(hidden);
      hidden = layer(hidden, std::to_string(i));
      builder.module.values[static_cast<std::size_t>(builder.find(hidden))].sizes =
          builder.module.values[0].sizes;
    }
    result = hidden;
    between.push_back(hidden);
  }

  GraphBuilder builder;
  std::vector<std::string> weights;
  std::string result;
  std::vector<std::string> between;

 private:
  std::string call(const std::string& target, const GraphBuilder::Arguments& arguments) {
    const std::string name = "n" + std::to_string(builder.module.nodes.size());
    builder.node("aten." + target, arguments, {name});
    return name;
  }
  std::string weight(const std::string& name, const std::string& layer) {
    const std::string full = layer + "." + name;
    builder.tensor(full);
    weights.push_back(full);
    return full;
  }
  static Value v(const std::string& name) { return {name}; }
  std::string norm(const std::string& x, const std::string& w) {
    const std::string wide = call("to.dtype", {{"self", v(x)}, {"dtype", Dtype{"float32"}}});
    const std::string square = call("pow.Tensor_Scalar", {{"self", v(wide)}, {"exponent", 2}});
    const std::string mean =
        call("mean.dim", {{"self", v(square)}, {"dim", Items{-1}}, {"keepdim", true}});
    const std::string sum = call("add.Tensor", {{"self", v(mean)}, {"other", 1e-6}});
    const std::string scale = call("rsqrt.default", {{"self", v(sum)}});
    const std::string scaled = call("mul.Tensor", {{"self", v(wide)}, {"other", v(scale)}});
    const std::string normal = call("to.dtype", {{"self", v(scaled)}, {"dtype", Dtype{"float32"}}});
    return call("mul.Tensor", {{"self", v(w)}, {"other", v(normal)}});
  }
  std::string linear(const std::string& x, const std::string& w) {
    return call("linear.default", {{"input", v(x)}, {"weight", v(w)}});
  }
  std::string heads(const std::string& x, const std::string& w) {
    const std::string cut =
        call("view.default",
             {{"self", v(linear(x, w))}, {"size", Items{v("rows"), v("length"), kHeads, kHead}}});
    return call("transpose.int", {{"self", v(cut)}, {"dim0", 1}, {"dim1", 2}});
  }
  std::string layer(const std::string& x, const std::string& number) {
    const auto w = [&](const std::string& name) { return weight(name, number); };
    const std::string in = norm(x, w("norm1"));
    const std::string q = heads(in, w("q")), k = heads(in, w("k")), value = heads(in, w("v"));
    const std::string attended =
        call("scaled_dot_product_attention.default",
             {{"query", v(q)}, {"key", v(k)}, {"value", v(value)}, {"is_causal", true}});
    const std::string back =
        call("transpose.int", {{"self", v(attended)}, {"dim0", 1}, {"dim1", 2}});
    const std::string joined = call(
        "reshape.default", {{"self", v(back)}, {"shape", Items{v("rows"), v("length"), kWidth}}});
    const std::string middle =
        call("add.Tensor", {{"self", v(x)}, {"other", v(linear(joined, w("o")))}});
    const std::string inner = norm(middle, w("norm2"));
    const std::string gate = call("silu.default", {{"self", v(linear(inner, w("gate")))}});
    const std::string gated =
        call("mul.Tensor", {{"self", v(gate)}, {"other", v(linear(inner, w("up")))}});
    return call("add.Tensor", {{"self", v(middle)}, {"other", v(linear(gated, w("down")))}});
  }
};

double seconds(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

// Alternates between calls and nodes, and reports the median cost of each.
template <typename RunCalls, typename RunProgram>
void compare(benchmark::State& state, const GraphBuilder& builder, const RunCalls& run_calls,
             const RunProgram& run_program) {
  if (!at::equal(run_calls(), run_program())) {
    state.SkipWithError("the graph computes something else");
    return;
  }
  const KeyedRandomScope as_a_layer(0, 0, "layer", 0);
  std::vector<double> by_calls, by_program, above;
  const auto nodes = static_cast<double>(builder.module.nodes.size());
  for (auto _ : state) {
    auto start = Clock::now();
    benchmark::DoNotOptimize(run_calls());
    by_calls.push_back(seconds(start) * 1e6 / nodes);
    start = Clock::now();
    benchmark::DoNotOptimize(run_program());
    by_program.push_back(seconds(start) * 1e6 / nodes);
    above.push_back(by_program.back() - by_calls.back());
  }
  const auto median = [](std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  };
  state.counters["nodes"] = nodes;
  state.counters["us_a_call"] = median(by_calls);
  state.counters["us_a_node"] = median(by_program);
  state.counters["us_above"] = median(above);
}

// Operators that have a direct call.
void decoder_above_calls(benchmark::State& state) {
  at::set_num_threads(1);
  const bool records = state.range(0) != 0;
  const DecoderGraph graph;
  const GraphBuilder& builder = graph.builder;
  const detail::GraphProgram program(builder.module, builder.all_nodes(), builder.find_all({"x"}),
                                     builder.find_all(graph.weights),
                                     builder.find_all({graph.result}), {});
  Tensors weights;
  for (int i = 0; i < kNumLayers; ++i) {
    for (const auto& [name, sizes] : kWeights)
      weights.push_back(at::randn(sizes).mul_(0.1).requires_grad_(records));
  }
  const at::Tensor x = at::randn({1, 4, kWidth});
  const at::AutoGradMode grad_mode(records);
  compare(
      state, builder, [&] { return run_calls(x, weights); },
      [&] { return program.run({x}, weights, {})[0]; });
}
BENCHMARK(decoder_above_calls)->Arg(0)->Arg(1)->ArgName("grad")->MinTime(1.0);

// Operators that are called through the boxed interface.
void boxed_above_calls(benchmark::State& state) {
  at::set_num_threads(1);
  const bool records = state.range(0) != 0;
  constexpr int kRounds = 30;
  GraphBuilder builder;
  builder.batch("x", {"s0", "4"});
  std::string last = "x";
  for (int i = 0; i < kRounds; ++i) {
    const std::string number = std::to_string(i);
    builder.node("aten.abs.default", {{"self", Value{last}}}, {"a" + number});
    builder.node("aten.clamp.default", {{"self", Value{"a" + number}}, {"min", 0.5}, {"max", 2}},
                 {"b" + number});
    builder.node("aten.flatten.using_ints",
                 {{"self", Value{"b" + number}}, {"start_dim", 0}, {"end_dim", -1}},
                 {"c" + number});
    builder.node("aten.unflatten.int",
                 {{"self", Value{"c" + number}}, {"dim", 0}, {"sizes", Items{-1, 4}}},
                 {"d" + number});
    last = "e" + number;
    builder.node("aten.maximum.default", {{"self", Value{"d" + number}}, {"other", Value{"x"}}},
                 {last});
  }
  const detail::GraphProgram program(builder.module, builder.all_nodes(), builder.find_all({"x"}),
                                     {}, builder.find_all({last}), {});
  const at::Tensor x = at::randn({8, 4}).requires_grad_(records);
  const at::AutoGradMode grad_mode(records);
  compare(
      state, builder,
      [&] {
        at::Tensor hidden = x;
        for (int i = 0; i < kRounds; ++i) {
          const at::Tensor flat = at::clamp(at::abs(hidden), 0.5, 2).flatten(0, -1);
          hidden = at::maximum(flat.unflatten(0, {-1, 4}), x);
        }
        return hidden;
      },
      [&] { return program.run({x}, {}, {})[0]; });
}
BENCHMARK(boxed_above_calls)->Arg(0)->Arg(1)->ArgName("grad")->MinTime(1.0);

// Loads a model of 61 layers, with one program per layer.
void load_61_layers(benchmark::State& state) {
  constexpr int kLayers = 61;
  const DecoderGraph graph(kLayers);
  const GraphBuilder& builder = graph.builder;
  const int num_nodes = static_cast<int>(builder.module.nodes.size()) / kLayers;
  const auto num_weights = static_cast<std::ptrdiff_t>(kWeights.size());
  for (auto _ : state) {
    for (int i = 0; i < kLayers; ++i) {
      const auto first = graph.weights.begin() + i * num_weights;
      const auto at = static_cast<std::size_t>(i);
      const detail::GraphProgram program(
          builder.module, GraphBuilder::nodes(i * num_nodes, (i + 1) * num_nodes),
          builder.find_all({graph.between[at]}),
          builder.find_all(std::vector<std::string>(first, first + num_weights)),
          builder.find_all({graph.between[at + 1]}), {});
      benchmark::DoNotOptimize(program.num_calls());
    }
  }
}
BENCHMARK(load_61_layers)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::test
