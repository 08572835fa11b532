// Trains four modules of one's own as a pipeline: on one rank and on two, threads of this process.
// The losses are the same bits.
#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "sluice/error.h"
#include "sluice/layer.h"
#include "sluice/parts/executor.h"
#include "sluice/parts/keyed_random.h"
#include "sluice/parts/rank_threads.h"
#include "sluice/parts/stage.h"
#include "sluice/program.h"
#include "sluice/schedule.h"
#include "sluice/transport.h"
#include "sluice/verify.h"

namespace {

constexpr int kNumLayers = 4, kNumMicrobatches = 4, kNumSteps = 20;
constexpr std::int64_t kWidth = 16, kRows = 8;

// x -> tanh(linear(x)); the first layer reads the batch's "x", the others what the layer before
// wrote.
sluice::LayerSpec make_layer(int i) {
  sluice::LayerSpec layer;
  layer.name = "layers." + std::to_string(i);
  if (i == 0) layer.reads = {"x"};
  layer.make = [] { return torch::nn::Linear(kWidth, kWidth).ptr(); };
  layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{at::tanh(module.as<torch::nn::Linear>()->forward(inputs[0]))};
  };
  layer.initialize = [](const std::string&, const std::string& key, at::Tensor& value,
                        std::uint64_t seed) { sluice::keyed_normal_(value, seed, key, 0.0, 0.3); };
  return layer;
}

// The sum of squared errors and the number of errors that it sums.
sluice::LossValue squared_error(const sluice::Values& outputs, const sluice::Values& batch) {
  const at::Tensor error = outputs.get("hidden") - batch.get("y");
  return {error.square().sum(), error.numel()};
}

// For more than this (AdamW, clipping, tied weights) there is sluice::Trainer.
class PlainGradientDescent : public sluice::StepOps {
 public:
  explicit PlainGradientDescent(sluice::Stage& stage) : stage_(stage) {}
  // One replica with whole parameters, nothing tied, no norm, no loss for other ranks: these are
  // not in this program.
  sluice::Work<void> unshard(int) override { return sluice::Work<void>::done(); }
  void reshard(int) override {}
  sluice::Work<void> reduce_gradients(int) override { return sluice::Work<void>::done(); }
  sluice::Work<void> reduce_tied(int) override { return sluice::Work<void>::done(); }
  sluice::Work<void> reduce_loss() override { return sluice::Work<void>::done(); }
  sluice::Work<void> reduce_norm() override { return sluice::Work<void>::done(); }
  void optimizer_step() override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < stage_.parameters().size(); ++i) {
      if (!stage_.gradient(i).defined()) continue;  // frozen, or not used in this step
      stage_.parameters()[i].tensor.sub_(stage_.gradient(i), 2.0);
    }
    stage_.clear_gradients();
  }

 private:
  sluice::Stage& stage_;
};

// The same on every rank: no input crosses the wire.
sluice::StepBatch make_batch(int step) {
  sluice::StepBatch batch;
  batch.step = step;
  for (int m = 0; m < kNumMicrobatches; ++m) {
    at::Tensor x = at::empty({kRows, kWidth});
    sluice::keyed_normal_(x, 1, "x of " + std::to_string(m), 0.0, 1.0);
    batch.microbatches.push_back({{"x", x}, {"y", at::sin(x)}});
    batch.counts.push_back(x.numel());
  }
  return batch;
}

// Losses of the steps, as the rank of the last stage computes them.
std::vector<double> train(int num_ranks) {
  const sluice::Schedule schedule =
      sluice::make_schedule("1F1B", {.num_ranks = num_ranks, .num_microbatches = kNumMicrobatches});
  const sluice::Program program = sluice::lower(schedule, {.optimizer_step = true});
  sluice::require_verified(sluice::verify(program), schedule.name);

  const auto transports = sluice::make_local_transports(num_ranks);
  std::vector<double> losses;  // written by one rank only, the last
  const auto run_rank = [&](sluice::Transport& transport) {
    const int rank = transport.rank();
    const int per_stage = kNumLayers / num_ranks, first = rank * per_stage;
    std::vector<sluice::LayerSpec> layers;
    for (int i = first; i < first + per_stage; ++i) layers.push_back(make_layer(i));
    const std::vector<std::string> received =
        rank == 0 ? std::vector<std::string>{} : std::vector<std::string>{"hidden"};
    sluice::Chunk chunk(layers, first, received, {"hidden"});
    sluice::initialize_parameters(chunk, 0);
    sluice::Stage stage(rank, std::move(chunk));

    PlainGradientDescent ops(stage);
    sluice::Executor executor(program, rank, {&stage}, transport, ops, squared_error, {});
    for (int step = 1; step <= kNumSteps; ++step) {
      executor.run_step(make_batch(step));
      if (executor.losses().empty()) continue;
      double sum = 0, count = 0;
      for (const sluice::MicrobatchLoss& loss : executor.losses())
        sum += loss.sum, count += loss.count;
      losses.push_back(sum / count);
    }
  };
  // One thread a rank. If one fails, the others end, too, and its error is thrown here.
  sluice::run_ranks(transports, /*threads_per_rank=*/1, /*ledger=*/nullptr, run_rank);
  return losses;
}

}  // namespace

int main() try {
  const std::vector<double> one = train(1), two = train(2);
  std::cout << "loss " << one.front() << " -> " << one.back() << " in " << kNumSteps << " steps; ";
  std::cout << (one == two ? "losses are the same on 1 and 2 ranks\n"
                           : "losses differ between 1 and 2 ranks\n");
  return one == two && one.back() < 0.5 * one.front() ? 0 : 1;
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
