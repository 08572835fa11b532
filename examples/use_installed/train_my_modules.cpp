// Layers of your own with named values between them: a skip connection past two layers, weights
// from your own init function, and only the needed layers on each rank. One rank and four ranks, as
// threads of this process, give the same bits.
#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <iostream>
#include <string>
#include <vector>

#include "sluice/error.h"
#include "sluice/layer.h"
#include "sluice/pipeline.h"

constexpr std::int64_t kWidth = 16, kRows = 32;

sluice::LayerSpec make_layer(const std::string& name, std::vector<std::string> reads,
                             std::vector<std::string> writes) {
  sluice::LayerSpec layer;
  layer.name = name;
  layer.reads = std::move(reads);
  layer.writes = std::move(writes);
  layer.make = [] { return torch::nn::Linear(kWidth, kWidth).ptr(); };
  layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& in) {
    const at::Tensor out = at::tanh(module.as<torch::nn::Linear>()->forward(in[0]));
    return std::vector<at::Tensor>{in.size() > 1 ? out + in[1] : out};
  };
  layer.initialize = [](const std::string&, const std::string& key, at::Tensor& value,
                        std::uint64_t seed) { sluice::keyed_normal_(value, seed, key, 0.0, 0.3); };
  return layer;
}

std::vector<double> train(int num_ranks) {
  sluice::Model model;
  model.layers = {make_layer("first", {"x"}, {"early"}),
                  make_layer("second", {"early"}, {"hidden"}),
                  make_layer("third", {"hidden"}, {"hidden"}),
                  make_layer("last", {"hidden", "early"}, {"prediction"})};
  model.inputs = {"x", "y"};
  model.outputs = {"prediction"};
  model.loss = sluice::mean_loss([](const sluice::Values& out, const sluice::Values& in) {
    return (out["prediction"] - in["y"]).square().mean();
  });
  // Every rank returns the same result.
  return sluice::run(model, {.num_ranks = num_ranks, .num_microbatches = 4},
                     [&](sluice::Pipeline& pipeline) {
                       std::vector<double> losses;
                       torch::optim::SGD optimizer(pipeline.parameters(),
                                                   torch::optim::SGDOptions(0.5));
                       at::Tensor x = at::empty({kRows, kWidth});
                       sluice::keyed_normal_(x, 1, "x", 0.0, 1.0);
                       for (int step = 0; step < 20; ++step) {
                         const auto result = pipeline.train_step({{"x", x}, {"y", at::sin(x)}});
                         pipeline.update(optimizer);
                         optimizer.zero_grad();
                         losses.push_back(result.loss);
                       }
                       return losses;
                     })
      .front();
}

int main() try {
  const std::vector<double> one = train(1), four = train(4);
  std::cout << "loss " << one.front() << " -> " << one.back() << "; "
            << (one == four ? "losses are the same on 1 and 4 ranks\n"
                            : "losses differ between 1 and 4 ranks\n");
  return one == four && one.back() < 0.5 * one.front() ? 0 : 1;
} catch (const sluice::Error& error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
