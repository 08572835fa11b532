// A model of your own. This file does not use sluice.
#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/utils.h>

constexpr std::int64_t kWidth = 32;

inline torch::nn::Sequential my_net() {
  torch::manual_seed(0);
  torch::nn::Sequential net(torch::nn::Linear(kWidth, 2 * kWidth), torch::nn::GELU());
  for (int i = 0; i < 4; ++i) {
    net->push_back(torch::nn::Linear(2 * kWidth, 2 * kWidth));
    net->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({2 * kWidth})));
    net->push_back(torch::nn::Tanh());
  }
  net->push_back(torch::nn::Linear(2 * kWidth, 1));
  return net;
}

struct Batch {
  at::Tensor x, y;
};

// Every rank computes the same batch.
inline Batch my_batch(int step, std::int64_t rows = 32) {
  at::Tensor x = at::arange(rows * kWidth, at::kFloat).mul_(0.37).add_(step).sin_();
  x = x.view({rows, kWidth});
  return {x, x.slice(1, 0, 8).sum(1, /*keepdim=*/true).tanh()};
}
