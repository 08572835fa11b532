#include <sluice/pipeline.h>
#include <torch/nn.h>
#include <torch/optim/adamw.h>

#include <cstdio>

int main() {
  torch::nn::Sequential net(torch::nn::Linear(16, 64), torch::nn::Tanh(), torch::nn::Linear(64, 64),
                            torch::nn::Tanh(), torch::nn::Linear(64, 16));
  const at::Tensor x = torch::rand({64, 16}), y = x.sin();
  sluice::Model model = sluice::from_sequential(net);
  model.inputs = {"x", "y"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"], in["y"]);
  });
  sluice::run(model, {.num_ranks = 4, .num_microbatches = 8}, [&](sluice::Pipeline& pipeline) {
    torch::optim::AdamW optimizer(pipeline.parameters(), 1e-2);
    for (int step = 1; step <= 100; ++step) {
      const double loss = pipeline.train_step({{"x", x}, {"y", y}}).loss;
      pipeline.update(optimizer);
      optimizer.zero_grad();
      if (pipeline.rank() == 0 && step % 20 == 0) std::printf("step %d: loss %.6f\n", step, loss);
    }
  });
}
