// Trains with a schedule of your own, in the file format of torch.distributed.pipelining. sluice
// proves it before anything runs. The bits equal those of one rank under 1F1B, and the losses match
// a plain loop.
#include <torch/nn/functional/loss.h>

#include "my_net.h"
#include "plain_loop.h"
#include "sluice/sluice.h"

// Two stages per rank. The second rank runs its weight gradients last.
const char* const kSchedule =
    "0F0,0F1,2F0,2F1,,2B0,2B1,0B0,0B1\n"
    ",1F0,1F1,3F0,3I0,3F1,3I1,1I0,1I1,3W0,3W1,1W0,1W1\n";

Losses pipelined(const sluice::PipelineOptions& options) {
  sluice::Model model = sluice::from_sequential(my_net());
  model.inputs = {"x", "y"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"], in["y"]);
  });
  // Every rank returns the same result.
  return sluice::run(model, options,
                     [&](sluice::Pipeline& pipeline) {
                       return train(pipeline.parameters(), [&](int step) {
                         const Batch batch = my_batch(step);
                         return pipeline.train_step({{"x", batch.x}, {"y", batch.y}}).loss;
                       });
                     })
      .front();
}

int main() try {
  const sluice::Schedule own = sluice::parse_schedule_csv(kSchedule, "own_csv.cpp");
  torch::nn::Sequential net = my_net();
  const Losses plain = plain_loop(*net, [&](int step) {
    return torch::mse_loss(net->forward(my_batch(step).x), my_batch(step).y);
  });
  return compare(pipelined({.num_ranks = 1, .num_microbatches = 2}), pipelined({.schedule = own}),
                 plain);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
