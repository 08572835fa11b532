// Trains a torch::nn::Sequential as a pipeline with torch's AdamW: on one rank, on four under a
// zero-bubble schedule, and in a plain loop.
#include <torch/nn/functional/loss.h>
#include <torch/nn/utils/clip_grad.h>

#include "my_net.h"
#include "plain_loop.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

Losses pipelined(int ranks, const char* schedule) {
  torch::nn::Sequential net = my_net();
  sluice::Model model = sluice::from_sequential(net);
  model.inputs = {"x", "y"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"], in["y"]);
  });
  const auto body = [&](sluice::Pipeline& pipeline) {  // runs once per rank
    Losses losses;
    torch::optim::AdamW optimizer = my_optimizer(pipeline.parameters());
    for (int step = 0; step < kSteps; ++step) {
      const Batch batch = my_batch(step);
      const double loss = pipeline.train_step({{"x", batch.x}, {"y", batch.y}}).loss;
      pipeline.clip_grad_norm(1.0);
      pipeline.update(optimizer);
      optimizer.zero_grad();
      losses.push_back(loss);
    }
    return losses;
  };
  // Every rank returns the same result.
  return sluice::run(model, {.num_ranks = ranks, .schedule = schedule, .num_microbatches = 8}, body)
      .front();
}

int main() try {
  torch::nn::Sequential net = my_net();
  const Losses plain = train(net->parameters(), [&](int step) {
    const Batch batch = my_batch(step);
    const at::Tensor loss = torch::mse_loss(net->forward(batch.x), batch.y);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
    return loss.item<double>();
  });
  return compare(pipelined(1, "1F1B"), pipelined(4, "ZBVZeroBubble"), plain);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
