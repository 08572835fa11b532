// A model for several replicas, built from torch's modules. Each replica makes its own layers.
#pragma once

#include <memory>
#include <string>

#include "my_net.h"
#include "sluice/pipeline.h"

inline sluice::Model my_model() {
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

inline Batch own_rows(const sluice::Pipeline& pipeline, const Batch& batch) {
  const auto own = [&](const torch::Tensor& rows) {
    return rows.tensor_split(pipeline.num_replicas())[pipeline.replica()];
  };
  return {own(batch.x), own(batch.y)};
}
