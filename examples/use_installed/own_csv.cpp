// A schedule of one's own, from a file of torch.distributed.pipelining's format: proven before
// anything runs, then trained under; the bits of one rank under 1F1B.
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <iostream>

#include "my_net.h"
#include "sluice/sluice.h"

// Two stages a rank; the second rank runs its weight gradients last.
const char* const kSchedule =
    "0F0,0F1,2F0,2F1,,2B0,2B1,0B0,0B1\n"
    ",1F0,1F1,3F0,3I0,3F1,3I1,1I0,1I1,3W0,3W1,1W0,1W1\n";

double last_loss(const sluice::PipelineOptions& options) {
  sluice::Model model = sluice::from_sequential(my_net());
  model.inputs = {"x", "y"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"], in["y"]);
  });
  double loss = 0;
  sluice::run(model, options, [&](sluice::Pipeline& pipeline) {
    torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.05));
    for (int step = 0; step < 10; ++step) {
      const Batch batch = my_batch(step);
      const auto result = pipeline.train_step({{"x", batch.x}, {"y", batch.y}});
      optimizer.step();
      optimizer.zero_grad();
      if (pipeline.has_last_stage()) loss = result.loss;  // all ranks have it
    }
  });
  return loss;
}

int main() try {
  const sluice::Schedule own = sluice::parse_schedule_csv(kSchedule, "own_csv.cpp");
  const double one = last_loss({.num_ranks = 1, .num_microbatches = 2});
  const double mine = last_loss({.own_schedule = own});
  std::cout << "loss " << one << "; a schedule of one's own "
            << (one == mine ? "is the same bits\n" : "DIFFERS\n");
  return one == mine ? 0 : 1;
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
