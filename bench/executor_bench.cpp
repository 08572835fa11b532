// Measures the cost of the executor itself, and of splitting the backward.
//
//   bench/executor_bench --benchmark_filter=Overhead   microseconds per action with empty stages,
//                                                     wall-clock and processor time
//   bench/executor_bench --benchmark_filter=Backward   B beside I + W, real layers
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <ctime>

#include <algorithm>
#include <numeric>
#include <thread>

#include "engine/executor.h"
#include "sluice/model.h"
#include "sluice/parts/stage.h"
#include "sluice/parts/transport.h"
#include "sluice/schedule.h"
#include "sluice/verify.h"

namespace sluice {
namespace {

struct NoOps final : StepOps {
  Work<void> unshard(int) override { return Work<void>::done(); }
  void reshard(int) override {}
  Work<void> reduce_gradients(int /*stage*/, std::optional<int> /*microbatch*/) override {
    return Work<void>::done();
  }
  Work<void> reduce_tied(int) override { return Work<void>::done(); }
  Work<void> reduce_loss() override { return Work<void>::done(); }
  Work<void> gather_outputs() override { return Work<void>::done(); }
  Work<void> reduce_norm() override { return Work<void>::done(); }
  IdleWork partial_norm(int) override { return {}; }
  Work<void> update(int) override { return Work<void>::done(); }
  void optimizer_step() override {}
};

// One number goes in and one comes out. So the time is that of the executor, of autograd's entry
// and of the transport.
LayerSpec empty_layer(int index, bool first, bool last) {
  LayerSpec layer;
  layer.name = "empty" + std::to_string(index);
  if (first) layer.reads = {"x"};
  if (last) layer.writes = {"out"};
  layer.forward = [](torch::nn::Module&, const std::vector<at::Tensor>& inputs) { return inputs; };
  layer.shapes = [](const std::vector<TensorMeta>& inputs) { return inputs; };
  return layer;
}

Model empty_model(int num_layers) {
  Model model;
  for (int i = 0; i < num_layers; ++i)
    model.layers.push_back(empty_layer(i, i == 0, i == num_layers - 1));
  model.inputs = {"x"};
  model.outputs = {"out"};
  model.loss = [](const Values& outputs, const Values&) {
    return LossValue{outputs.get("out").sum(), 1};
  };
  return model;
}

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Args: ranks, microbatches. Counts the F, B, SEND and RECV actions of all ranks.
void BM_ExecutorOverhead(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0)),
            microbatches = static_cast<int>(state.range(1));
  const Program program = lower(make_schedule("1F1B", {ranks, 1, microbatches}));
  require_verified(verify(program), "1F1B");
  const Model model = empty_model(ranks);
  PartitionOptions options;
  options.num_ranks = options.num_stages = ranks;
  const Partition partition = make_partition(describe(model.layers), options);
  std::int64_t actions = 0;
  for (const auto& row : program.ranks) actions += static_cast<std::int64_t>(row.size());
  StepBatch batch;
  batch.step = 1;
  for (int m = 0; m < microbatches; ++m) {
    at::Tensor x = at::ones({1});
    x.set_requires_grad(true);
    batch.microbatches.push_back({{"x", x}});
    batch.counts.push_back(1);
  }
  auto transports = make_local_transports(ranks);
  const int kSteps = 20;
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<std::thread> threads;
    std::vector<double> seconds(static_cast<std::size_t>(ranks)), cpu_seconds(seconds);
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        at::set_num_threads(1);
        at::get_num_threads();
        RankStages stages = build_stages(model, partition, rank);
        NoOps ops;
        Executor executor(program, rank, stages.pointers(), *transports[rank], ops, model.loss, {});
        executor.run_step(batch);
        transports[rank]->world().barrier().wait();
        const auto start = std::chrono::steady_clock::now();
        const double cpu_start = thread_cpu_seconds();
        for (int i = 0; i < kSteps; ++i) executor.run_step(batch);
        cpu_seconds[rank] = thread_cpu_seconds() - cpu_start;
        seconds[rank] =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      });
    }
    for (std::thread& thread : threads) thread.join();
    state.ResumeTiming();
    const double slowest = *std::max_element(seconds.begin(), seconds.end());
    state.SetIterationTime(slowest);
    const double cpu = std::accumulate(cpu_seconds.begin(), cpu_seconds.end(), 0.0);
    const double executed = static_cast<double>(kSteps * actions);
    state.counters["us_per_action"] = slowest * ranks / executed * 1e6;
    state.counters["cpu_us_per_action"] = cpu / executed * 1e6;
  }
}
BENCHMARK(BM_ExecutorOverhead)
    ->Args({1, 8})
    ->Args({1, 64})
    ->Args({1, 512})
    ->Args({2, 8})
    ->Args({2, 64})
    ->Args({2, 512})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

struct Block : torch::nn::Module {
  explicit Block(std::int64_t width)
      : norm(torch::nn::LayerNormOptions({width})), up(width, 4 * width), down(4 * width, width) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  at::Tensor forward(const at::Tensor& x) { return x + down(at::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};

// Args: width, rows. Both ways alternate in one loop, so that a drifting machine affects both.
void BM_BackwardWholeAndSplit(benchmark::State& state) {
  at::set_num_threads(1);
  const std::int64_t width = state.range(0), rows = state.range(1);
  std::vector<LayerSpec> layers;
  for (int i = 0; i < 4; ++i) {
    LayerSpec layer;
    layer.name = "block" + std::to_string(i);
    layer.make = [=] { return std::make_shared<Block>(width); };
    layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& inputs) {
      return std::vector<at::Tensor>{static_cast<Block&>(module).forward(inputs[0])};
    };
    layers.push_back(layer);
  }
  Stage stage(1, Chunk(layers, 1, {"hidden"}, {"hidden"}));
  const at::Tensor gradient = at::randn({rows, width});
  double whole = 0, input = 0, weight = 0;
  auto timed = [](double& total, auto&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    total += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (auto _ : state) {
    for (const bool split : {false, true}) {
      at::Tensor x = at::randn({rows, width});
      x.set_requires_grad(true);
      {
        const Values outputs = stage.forward({0, 1, 0}, {x}, {});
        stage.keep(0, {outputs.get("hidden")});
      }
      if (split) {
        timed(input, [&] { stage.backward_input(0, {gradient}); });
        timed(weight, [&] { stage.backward_weight(0); });
      } else {
        timed(whole, [&] { stage.backward(0, {gradient}); });
      }
    }
  }
  const double n = static_cast<double>(state.iterations());
  state.counters["B_ms"] = whole / n * 1e3;
  state.counters["I_ms"] = input / n * 1e3;
  state.counters["W_ms"] = weight / n * 1e3;
  state.counters["I+W/B"] = (input + weight) / whole;
}
BENCHMARK(BM_BackwardWholeAndSplit)
    ->Args({128, 64})
    ->Args({256, 256})
    ->Args({512, 512})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
