// sluice's own update: a Trainer runs a pipeline whose plan ends with the update. The same bits on
// one rank, on three, and with two replicas that shard optimizer state or parameters.
#include <iostream>

#include "my_blocks.h"
#include "plain_loop.h"
#include "sluice/error.h"
#include "sluice/trainer.h"

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
                         const Batch batch = own_rows(pipeline, my_batch(step));
                         const sluice::StepResult result =
                             trainer.step({{"x", batch.x}, {"y", batch.y}}, 1e-2);
                         numbers.push_back(result.grad_norm);
                         numbers.push_back(result.loss);
                       }
                       return numbers;  // every rank returns the same
                     })
      .front();
}

int main() try {
  const Losses alone = trained(1, {.shards = 2});
  bool same = trained(3, {.shards = 2}) == alone;
  same &= trained(2, {.degree = 2, .shards = 2}) == alone;
  same &= trained(2, {.degree = 2, .shards = 2, .zero1 = true}) == alone;
  same &= trained(2, {.degree = 2, .shards = 2, .zero3 = true}) == alone;
  return report(alone, same);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
