#pragma once

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <string>

#include "sluice/layer.h"
#include "sluice/pipeline.h"

namespace sluice::test {

inline constexpr std::int64_t kWidth = 12, kRows = 24;

inline torch::nn::Sequential make_net(double dropout = 0.0) {
  torch::nn::Sequential net(torch::nn::Linear(kWidth, 2 * kWidth), torch::nn::Tanh(),
                            torch::nn::Linear(2 * kWidth, kWidth),
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})),
                            torch::nn::Dropout(dropout), torch::nn::Linear(kWidth, kWidth),
                            torch::nn::GELU(), torch::nn::Linear(kWidth, 4));
  const at::NoGradGuard no_grad;
  for (const auto& item : net->named_parameters()) {
    at::Tensor value = item.value();
    if (value.dim() > 1) keyed_normal_(value, 3, item.key(), 0.0, 0.3);
    if (item.key().ends_with("bias")) value.zero_();
  }
  return net;
}

inline at::Tensor inputs_of(int step, std::int64_t rows = kRows) {
  at::Tensor x = at::empty({rows, kWidth});
  keyed_normal_(x, 5, "x" + std::to_string(step), 0.0, 1.0);
  return x;
}
inline at::Tensor targets_of(const at::Tensor& x) { return at::sin(2 * x.slice(1, 0, 4)); }

inline Model model_of(const torch::nn::Sequential& net) {
  Model model = from_sequential(net);
  model.inputs = {"x", "y"};
  model.loss = mean_loss(
      [](const Values& out, const Values& in) { return torch::mse_loss(out["hidden"], in["y"]); });
  return model;
}

inline PipelineOptions layout(const char* schedule, int ranks, int microbatches = 8) {
  PipelineOptions options;
  options.num_ranks = ranks;
  options.schedule = schedule;
  options.num_microbatches = microbatches;
  return options;
}

}  // namespace sluice::test
