// Saves a run in the middle and resumes it with other ranks and another schedule. The bits equal
// those of an uninterrupted run, and the losses match a plain loop.
#include <torch/nn/functional/loss.h>

#include <filesystem>

#include "my_net.h"
#include "plain_loop.h"
#include "sluice/error.h"
#include "sluice/pipeline.h"

const std::string kCheckpoint = "save_and_resume.checkpoint";

// Trains until step `last`, from the checkpoint if there is one.
Losses train_until(int last, const sluice::PipelineOptions& options) {
  torch::nn::Sequential net = my_net();
  sluice::Model model = sluice::from_sequential(net);
  model.inputs = {"x", "y"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return torch::mse_loss(out["hidden"], in["y"]);
  });
  const bool resumes = std::filesystem::exists(kCheckpoint);
  // Every rank returns the same result.
  return sluice::run(model, options,
                     [&](sluice::Pipeline& pipeline) {
                       Losses losses;
                       torch::optim::AdamW optimizer = my_optimizer(pipeline.parameters());
                       int step = 0;
                       if (resumes)
                         step = std::stoi(pipeline.load(kCheckpoint, {.optimizers = {&optimizer}})
                                              .extra.at("next_batch"));
                       for (; step < last; ++step) {
                         const Batch batch = my_batch(step);
                         const auto trained = pipeline.train_step({{"x", batch.x}, {"y", batch.y}});
                         pipeline.update(optimizer);
                         optimizer.zero_grad();
                         losses.push_back(trained.loss);
                       }
                       pipeline.save(kCheckpoint,
                                     {.optimizers = {&optimizer},
                                      .extra = {{"next_batch", std::to_string(step)}}});
                       return losses;
                     })
      .front();
}

int main() try {
  std::filesystem::remove_all(kCheckpoint);
  const Losses whole = train_until(kSteps, {.num_ranks = 1, .num_microbatches = 4});
  std::filesystem::remove_all(kCheckpoint);
  Losses parts = train_until(4, {.num_ranks = 2, .num_microbatches = 4});
  const Losses rest = train_until(
      kSteps, {.num_ranks = 3, .schedule = "InterleavedZeroBubble", .num_microbatches = 4});
  parts.insert(parts.end(), rest.begin(), rest.end());
  std::filesystem::remove_all(kCheckpoint);

  torch::nn::Sequential net = my_net();
  return compare(whole, parts, plain_loop(*net, [&](int step) {
                   return torch::mse_loss(net->forward(my_batch(step).x), my_batch(step).y);
                 }));
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
