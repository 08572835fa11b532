// What an example compares its pipelines with: a loop of torch's own over the same batches.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

using Losses = std::vector<double>;
constexpr int kSteps = 10;

inline torch::optim::AdamW my_optimizer(std::vector<at::Tensor> parameters) {
  return torch::optim::AdamW(std::move(parameters), torch::optim::AdamWOptions(3e-3));
}

// init: of one parameter by its name. loss_of: of a step.
inline Losses plain_loop(torch::nn::Module& net,
                         const std::function<void(const std::string&, at::Tensor&)>& init,
                         const std::function<at::Tensor(int step)>& loss_of) {
  for (const auto& item : net.named_parameters()) {
    at::Tensor value = item.value().detach();
    init(item.key(), value);
  }
  torch::optim::AdamW optimizer = my_optimizer(net.parameters());
  Losses losses;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor loss = loss_of(step);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

// Prints, and returns what main() does.
inline int compare(const Losses& one, const Losses& several, const Losses& plain) {
  bool close = true;
  for (int i = 0; i < kSteps; ++i) close = close && std::abs(one[i] - plain[i]) < 1e-5;
  std::cout << "loss " << one.front() << " -> " << one.back() << "; several ranks "
            << (one == several ? "are the same bits" : "DIFFER") << ", a plain loop "
            << (close ? "agrees" : "DIFFERS") << '\n';
  return one == several && close && one.back() < one.front() ? 0 : 1;
}
