// sluice's own update: Trainer on a pipeline whose plan ends with it. The same bits on one rank, on
// three, and with two replicas that share optimizer state or parameters.
#include <iostream>
#include <memory>
#include <string>

#include "my_net.h"
#include "plain_loop.h"
#include "sluice/error.h"
#include "sluice/trainer.h"

// Four layers of torch's own modules; each replica makes its own.
sluice::Model my_model() {
  sluice::Model model;
  for (int i = 0; i < 4; ++i) {
    sluice::LayerSpec& layer = model.layers.emplace_back();
    layer.name = "block" + std::to_string(i);
    layer.reads = {i == 0 ? "x" : "hidden"};
    layer.writes = {"hidden"};
    layer.make = [] { return std::make_shared<torch::nn::LinearImpl>(kWidth, kWidth); };
    layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
      return std::vector{at::tanh(module.as<torch::nn::LinearImpl>()->forward(in[0]))};
    };
  }
  model.inputs = {"x", "y"};
  model.outputs = {"hidden"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"].mean(1, /*keepdim=*/true), in["y"]);
  });
  return model;
}

// The norms and losses of six steps.
Losses trained(int ranks, const sluice::DataParallel& replicas) {
  return sluice::run(my_model(),
                     {.num_ranks = ranks,
                      .num_microbatches = 4 / replicas.degree,
                      .step_end = sluice::StepEnd::kUpdate,
                      .data_parallel = replicas},
                     [&](sluice::Pipeline& pipeline) {
                       Losses numbers;
                       sluice::Trainer trainer(pipeline, {.weight_decay = 0.0, .max_norm = 0.5});
                       for (int step = 0; step < 6; ++step) {
                         const Batch batch = my_batch(step);
                         // Rows of this replica's own.
                         const auto own = [&](const torch::Tensor& rows) {
                           return rows.tensor_split(pipeline.num_replicas())[pipeline.replica()];
                         };
                         const sluice::StepResult result =
                             trainer.step({{"x", own(batch.x)}, {"y", own(batch.y)}}, 1e-2);
                         numbers.push_back(result.grad_norm);
                         numbers.push_back(result.loss);
                       }
                       return numbers;  // all ranks have the same
                     })
      .front();
}

int main() try {
  const Losses alone = trained(1, {.shards = 2});
  bool same = trained(3, {.shards = 2}) == alone;
  same &= trained(2, {.degree = 2, .shards = 2}) == alone;
  same &= trained(2, {.degree = 2, .shards = 2, .zero1 = true}) == alone;
  same &= trained(2, {.degree = 2, .shards = 2, .zero3 = true}) == alone;
  std::cout << "loss after six steps: " << alone.back()
            << (same ? ", the same bits in every layout\n" : ", other bits in another layout\n");
  return same && alone.size() == 12 ? 0 : 1;
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
