// One rank per process, or all ranks in one process: the same program and the same bits.
//   several_processes && sluice launch -n 2 -- several_processes
// Alone, the program runs all ranks as threads and starts no processes. Under `sluice launch`, each
// process runs its share of the ranks. The process of rank 0 prints.
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>

#include <cstdio>
#include <iostream>

#include "my_net.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

int main() try {
  sluice::Model model = sluice::from_sequential(my_net());
  model.inputs = {"x", "y"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"], in["y"]);
  });
  sluice::run(model, {.num_ranks = 2, .num_microbatches = 4}, [](sluice::Pipeline& pipeline) {
    torch::optim::AdamW optimizer(pipeline.parameters(), 1e-2);
    double loss = 0.0;
    for (int step = 0; step < 10; ++step) {
      const Batch batch = my_batch(step);
      loss = pipeline.train_step({{"x", batch.x}, {"y", batch.y}}).loss;
      pipeline.update(optimizer);
      optimizer.zero_grad();
    }
    if (pipeline.rank() == 0) std::printf("loss %a\n", loss);
  });
  return 0;
} catch (const sluice::Error& error) {
  std::cerr << "sluice: error: " << error.what() << '\n';
  return error.exit_code();
}
