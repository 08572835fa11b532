// torch::optim with gradients accumulated over two calls, and evaluation between the steps. One
// rank and three ranks give the same bits, and the losses match a plain loop.
#include <torch/nn/functional/loss.h>

#include "my_net.h"
#include "plain_loop.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

const Batch& unseen() {
  static const Batch batch = my_batch(1000, /*rows=*/13);
  return batch;
}

// Returns the losses of a held-out batch after every update.
Losses pipelined(int ranks) {
  torch::nn::Sequential net = my_net();
  sluice::Model model = sluice::from_sequential(net);
  model.inputs = {"x", "y"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"], in["y"]);
  });
  // Every rank returns the same result.
  return sluice::run(
             model, {.num_ranks = ranks, .num_microbatches = 4},
             [&](sluice::Pipeline& pipeline) {
               Losses losses;
               torch::optim::AdamW optimizer = my_optimizer(pipeline.parameters());
               pipeline.check(optimizer);
               for (int step = 0; step < kSteps; ++step) {
                 for (int half = 0; half < 2; ++half) {  // gradients accumulate until zero_grad
                   const Batch batch = my_batch(2 * step + half);
                   pipeline.train_step({{"x", batch.x}, {"y", batch.y}});
                 }
                 pipeline.update(optimizer);
                 optimizer.zero_grad();
                 const auto seen = pipeline.eval_step({{"x", unseen().x}, {"y", unseen().y}});
                 losses.push_back(seen.loss);
               }
               return losses;
             })
      .front();
}

int main() try {
  torch::nn::Sequential net = my_net();
  torch::optim::AdamW optimizer = my_optimizer(net->parameters());
  Losses plain;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 2 * step; i < 2 * step + 2; ++i)
      torch::mse_loss(net->forward(my_batch(i).x), my_batch(i).y).backward();
    optimizer.step();
    optimizer.zero_grad();
    plain.push_back(torch::mse_loss(net->forward(unseen().x), unseen().y).item<double>());
  }
  return compare(pipelined(1), pipelined(3), plain);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
