// torch::optim with gradients that add up over two calls, and evaluation between the steps: the
// same bits on one rank and on three.
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <iostream>

#include "my_net.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

std::vector<double> validation_losses(int ranks) {
  torch::nn::Sequential net = my_net();
  sluice::Model model = sluice::from_sequential(net);
  model.inputs = {"x", "y"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"], in["y"]);
  });
  const Batch unseen = my_batch(1000, /*rows=*/13);
  std::vector<double> losses;
  sluice::run(model, {.num_ranks = ranks, .num_microbatches = 4}, [&](sluice::Pipeline& pipeline) {
    torch::optim::SGD optimizer(pipeline.parameters(),
                                torch::optim::SGDOptions(0.02).momentum(0.9));
    pipeline.check(optimizer);
    for (int step = 0; step < 20; ++step) {
      for (int half = 0; half < 2; ++half) {  // gradients add up until zero_grad
        const Batch batch = my_batch(2 * step + half);
        pipeline.train_step({{"x", batch.x}, {"y", batch.y}});
      }
      optimizer.step();
      optimizer.zero_grad();
      const auto seen = pipeline.eval_step({{"x", unseen.x}, {"y", unseen.y}});
      if (pipeline.has_first_stage()) losses.push_back(seen.loss);  // all ranks have it
    }
  });
  return losses;
}

int main() try {
  const std::vector<double> one = validation_losses(1), three = validation_losses(3);
  std::cout << "validation loss " << one.front() << " -> " << one.back() << "; three ranks "
            << (one == three ? "are the same bits\n" : "DIFFER\n");
  return one == three && one.back() < one.front() ? 0 : 1;
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
