// A user program that trains with sluice::run, in one process or in several:
//   pipeline_process RANKS REPLICAS FOLDER [WHAT]
// Writes FOLDER/rank_R with the losses and last weights of rank R. WHAT "kill", "throw", "model",
// "microbatches", "ranks" or "seed" makes process 1 of several behave differently. With "twice" all
// processes train twice. With "zero1" and "zero3" they shard over the replicas, and the weights are
// the rank's own blocks.
#include <torch/optim/adamw.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/error.h"
#include "train/pipeline_support.h"

namespace sluice::test {
namespace {

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.detach().cpu().contiguous();
  return {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()};
}

std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a\n", value);
  return text;
}

void train(int ranks, int replicas, const std::string& folder, const std::string& otherwise,
           const std::string& shards) {
  constexpr int kSteps = 3;
  Model model;
  for (int i = 0; i < (otherwise == "model" ? 9 : 8); ++i) {
    LayerSpec& layer = model.layers.emplace_back();
    layer.name = "layer" + std::to_string(i);
    layer.reads = {i == 0 ? "x" : "hidden"};
    layer.writes = {"hidden"};
    layer.make = [] { return torch::nn::Linear(kWidth, kWidth).ptr(); };
    layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
      return std::vector{in[0] + at::tanh(module.as<torch::nn::Linear>()->forward(in[0]))};
    };
  }
  model.inputs = {"x", "y"};
  model.outputs = {"hidden"};
  model.loss = mean_loss(
      [](const Values& out, const Values& in) { return torch::mse_loss(out["hidden"], in["y"]); });
  PipelineOptions options =
      layout("1F1B", otherwise == "ranks" ? 2 * ranks : ranks, otherwise == "microbatches" ? 4 : 8);
  options.data_parallel.degree = replicas;
  options.data_parallel.zero1 = shards == "zero1";
  options.data_parallel.zero3 = shards == "zero3";
  RunOptions run_options;
  if (otherwise == "seed") run_options.seed = 7;
  run(
      model, options,
      [&](Pipeline& pipeline) {
        torch::optim::AdamW optimizer(pipeline.parameters(), 1e-2);
        std::string said;
        for (int step = 0; step < kSteps; ++step) {
          if (step == 1 && otherwise == "kill") std::raise(SIGKILL);
          if (step == 1 && otherwise == "throw") throw std::runtime_error("a defect of the user's");
          const at::Tensor all = inputs_of(step, kRows * replicas);
          const at::Tensor x = all.chunk(replicas)[pipeline.replica()];
          said += exact(pipeline.train_step({{"x", x}, {"y", at::sin(2 * x)}}).loss);
          if (shards.empty()) {
            optimizer.step();
          } else {
            said += exact(pipeline.clip_grad_norm(0.1));
            pipeline.update(optimizer);
          }
          optimizer.zero_grad();
        }
        for (const ParameterInfo& info : pipeline.named_parameters())
          said += info.name + " " + bytes_of(info.tensor) + "\n";
        std::ofstream(folder + "/rank_" + std::to_string(pipeline.rank())) << said;
      },
      run_options);
}

int main_of(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string what = argc > 4 ? argv[4] : "";
  const char* const process = std::getenv("RANK");
  const bool is_other = process && std::string(process) == "1";
  try {
    for (int time = 0; time < (what == "twice" ? 2 : 1); ++time)
      train(std::atoi(argv[1]), std::atoi(argv[2]), argv[3], is_other ? what : "",
            what.starts_with("zero") ? what : "");
  } catch (const Error& error) {
    std::cerr << "sluice: error: " + std::string(error.what()) + "\n";
    return error.exit_code();
  }
  return 0;
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) { return sluice::test::main_of(argc, argv); }
