// torch::optim with sharded state: pipeline.update(optimizer) updates the blocks of each replica.
// Weight decay depends on whole shapes. The bits are the same on one rank and with two replicas on
// two ranks. The replicas share nothing, the optimizer's state (zero1) or the parameters too
// (zero3).
#include <torch/optim/adamw.h>

#include <iostream>
#include <memory>
#include <vector>

#include "my_blocks.h"
#include "plain_loop.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

torch::optim::AdamW make_optimizer(const sluice::Pipeline& pipeline) {
  std::vector<at::Tensor> matrices, vectors;
  for (const sluice::ParameterInfo& info : pipeline.named_parameters())
    (info.global_shape.size() > 1 ? matrices : vectors).push_back(info.tensor);
  const auto group = [](std::vector<at::Tensor> parameters, double decay) {
    return torch::optim::OptimizerParamGroup(
        std::move(parameters), std::make_unique<torch::optim::AdamWOptions>(
                                   torch::optim::AdamWOptions(1e-2).weight_decay(decay)));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.push_back(group(std::move(matrices), 0.1));
  groups.push_back(group(std::move(vectors), 0.0));
  return torch::optim::AdamW(std::move(groups), torch::optim::AdamWOptions(1e-2));
}

Losses trained(int ranks, const sluice::DataParallel& replicas) {
  return sluice::run(
             my_model(),
             {.num_ranks = ranks,
              .num_microbatches = 4 / replicas.degree,
              .data_parallel = replicas},
             [&](sluice::Pipeline& pipeline) {
               Losses numbers;
               torch::optim::AdamW optimizer = make_optimizer(pipeline);
               pipeline.check(optimizer);
               for (int step = 0; step < 6; ++step) {
                 const Batch batch = own_rows(pipeline, my_batch(step));
                 const double loss = pipeline.train_step({{"x", batch.x}, {"y", batch.y}}).loss;
                 numbers.push_back(pipeline.clip_grad_norm(0.5));
                 numbers.push_back(loss);
                 pipeline.update(optimizer);
                 pipeline.zero_grad();
               }
               return numbers;  // every rank returns the same
             })
      .front();
}

int main() try {
  const Losses alone = trained(1, {.shards = 2});
  bool same = trained(2, {.degree = 2, .shards = 2}) == alone;
  same &= trained(2, {.degree = 2, .shards = 2, .zero1 = true}) == alone;
  same &= trained(2, {.degree = 2, .shards = 2, .zero3 = true}) == alone;
  return report(alone, same);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
