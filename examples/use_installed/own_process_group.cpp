// A program that has a c10d::ProcessGroup of its own gives it to sluice. Here each rank is a thread
// and the group stands on a HashStore. In a job of torchrun each rank is a process, and the store
// is a c10d::TCPStore at MASTER_ADDR and MASTER_PORT.
#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdio>
#include <iostream>
#include <thread>
#include <vector>

#include "my_net.h"
#include "sluice/error.h"
#include "sluice/parts/transport.h"
#include "sluice/pipeline.h"

namespace {

// The model holds the modules that it is made of, and with them the trained weights.
sluice::Model my_model() {
  sluice::Model model = sluice::from_sequential(my_net());
  model.inputs = {"x", "y"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"], in["y"]);
  });
  return model;
}

double train(sluice::Pipeline& pipeline) {
  torch::optim::AdamW optimizer(pipeline.parameters(), 1e-2);
  double loss = 0;
  for (int step = 0; step < 10; ++step) {
    const Batch batch = my_batch(step);
    loss = pipeline.train_step({{"x", batch.x}, {"y", batch.y}}).loss;
    pipeline.update(optimizer);
    optimizer.zero_grad();
  }
  return loss;
}

}  // namespace

int main() try {
  constexpr int kRanks = 2;
  const sluice::Model model = my_model();
  const sluice::PipelineOptions options = {.num_ranks = kRanks, .num_microbatches = 4};
  const sluice::Plan plan = sluice::plan_pipeline(sluice::describe(model.layers), options);

  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<double> losses(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      // As in run(), because the order of sums depends on the number of threads. A thread's first
      // at::get_num_threads() would undo an earlier at::set_num_threads().
      at::get_num_threads();
      at::set_num_threads(1);
      c10d::ProcessGroup group(store, rank, kRanks);  // yours
      const auto transport = sluice::make_transport(group);
      sluice::Pipeline pipeline(model, plan, *transport);
      losses[rank] = train(pipeline);
    });
  }
  for (std::thread& rank : ranks) rank.join();

  const std::vector<double> by_run = sluice::run(my_model(), options, train);
  const bool is_same = losses == by_run;
  std::printf("loss %.6f, by run() %.6f: %s\n", losses[0], by_run[0],
              is_same ? "the same" : "not the same");
  return is_same ? 0 : 1;
} catch (const sluice::Error& error) {
  std::cerr << "sluice: error: " << error.what() << '\n';
  return error.exit_code();
}
