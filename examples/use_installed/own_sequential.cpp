// A torch::nn::Sequential trained as a pipeline by torch's AdamW: on one rank, on four under a
// zero-bubble schedule, and in a plain loop.
#include <torch/nn/functional/loss.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <iostream>

#include "my_net.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

using Losses = std::vector<double>;
constexpr int kSteps = 20;

Losses pipelined(int ranks, const char* schedule) {
  torch::nn::Sequential net = my_net();
  sluice::Model model = sluice::from_sequential(net);
  model.inputs = {"x", "y"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"], in["y"]);
  });
  Losses losses(kSteps);
  const auto body = [&](sluice::Pipeline& pipeline) {  // once a rank
    torch::optim::AdamW optimizer(pipeline.parameters(), torch::optim::AdamWOptions(1e-2));
    for (int step = 0; step < kSteps; ++step) {
      const Batch batch = my_batch(step);
      const auto result = pipeline.train_step({{"x", batch.x}, {"y", batch.y}});
      pipeline.clip_grad_norm(1.0);
      optimizer.step();
      optimizer.zero_grad();
      if (pipeline.has_last_stage()) losses[step] = result.loss;  // all ranks have it
    }
  };
  sluice::run(model, {.num_ranks = ranks, .schedule = schedule, .num_microbatches = 8}, body);
  return losses;
}

Losses in_a_loop() {
  torch::nn::Sequential net = my_net();
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
  Losses losses;
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = my_batch(step);
    const at::Tensor loss = torch::mse_loss(net->forward(batch.x), batch.y);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
    optimizer.step();
    optimizer.zero_grad();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

int main() try {
  const Losses one = pipelined(1, "1F1B"), four = pipelined(4, "ZBVZeroBubble"),
               plain = in_a_loop();
  bool close = true;
  for (int i = 0; i < kSteps; ++i) close = close && std::abs(one[i] - plain[i]) < 1e-5;
  std::cout << "loss " << one.front() << " -> " << one.back() << "; four ranks "
            << (one == four ? "are the same bits" : "DIFFER") << ", a plain loop "
            << (close ? "agrees" : "DIFFERS") << '\n';
  return one == four && close ? 0 : 1;
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
