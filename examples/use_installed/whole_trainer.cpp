// A complete trainer. A model from a Hugging Face directory (the argument) learns the text of this
// file. It has a learning rate that warms up and decays, clipped gradients, a log and checkpoints.
// A run that stops half way and resumes with other ranks ends with the loss of an uninterrupted
// run.
#include <filesystem>
#include <iostream>

#include "plain_loop.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/sluice.h"

constexpr std::int64_t kAllSteps = 12, kRows = 4, kRowsAtOnce = 1;
const std::string kFolder = "whole_trainer.checkpoint";

// Returns the norms and losses of the steps up to `last`, starting from the checkpoint if there is
// one.
Losses trained(const std::string& path, std::int64_t last, int ranks) {
  const sluice::ModelSpec spec = sluice::read_model_spec(path);
  sluice::Model model = sluice::causal_lm(spec);
  model.initialization.tensor = sluice::stored_values(path);
  const sluice::TokenData data({.data = {.files = {__FILE__}, .tokenizer = "bytes"},
                                .seq_len = 16,
                                .vocab_size = spec.vocab_size});
  const bool resumes = std::filesystem::exists(kFolder);
  const auto body = [&](sluice::Pipeline& pipeline) {  // runs once per rank
    Losses losses;
    sluice::Trainer trainer(pipeline, {.weight_decay = 0.01, .no_decay = {"*norm*"}});
    if (resumes) pipeline.load(kFolder);
    for (std::int64_t step = *trainer.weights_step() + 1; step <= last; ++step) {
      const double rate = sluice::learning_rate(
          step, kAllSteps, 1e-2, {.warmup_steps = 3, .decay = sluice::Decay::kCosine});
      const sluice::StepResult result = trainer.step(
          sluice::causal_lm_batch(data.step_rows(step, kRows), kRowsAtOnce, step), rate);
      if (pipeline.rank() == 0)
        std::cout << "step " << step << ": " << result.loss << ", norm " << result.grad_norm
                  << '\n';
      losses.insert(losses.end(), {result.grad_norm, result.loss});
    }
    pipeline.save(kFolder);
    return losses;  // every rank returns the same
  };
  return sluice::run(model,
                     {.num_ranks = ranks,
                      .num_microbatches = kRows / kRowsAtOnce,
                      .step_end = sluice::StepEnd::kUpdate},
                     body)
      .front();
}

int main(int, char** arguments) try {
  std::filesystem::remove_all(kFolder);
  const Losses whole = trained(arguments[1], kAllSteps, 1);
  std::filesystem::remove_all(kFolder);
  Losses halves = trained(arguments[1], kAllSteps / 2, 2);
  for (const double loss : trained(arguments[1], kAllSteps, 3)) halves.push_back(loss);
  return report(whole, halves == whole);
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
