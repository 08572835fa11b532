// A plain torch loop over the same batches, with which the examples compare their pipelines.
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

// step_of: computes the gradients of a step and returns its loss.
inline Losses train(std::vector<at::Tensor> parameters,
                    const std::function<double(int step)>& step_of) {
  torch::optim::AdamW optimizer = my_optimizer(std::move(parameters));
  Losses losses;
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back(step_of(step));
    optimizer.step();
    optimizer.zero_grad();
  }
  return losses;
}

inline Losses plain_loop(torch::nn::Module& net,
                         const std::function<at::Tensor(int step)>& loss_of) {
  return train(net.parameters(), [&](int step) {
    const at::Tensor loss = loss_of(step);
    loss.backward();
    return loss.item<double>();
  });
}

// init: initializes one parameter by name.
inline Losses plain_loop(torch::nn::Module& net,
                         const std::function<void(const std::string&, at::Tensor&)>& init,
                         const std::function<at::Tensor(int step)>& loss_of) {
  for (const auto& item : net.named_parameters()) {
    at::Tensor value = item.value().detach();
    init(item.key(), value);
  }
  return plain_loop(net, loss_of);
}

inline int compare(const Losses& one, const Losses& several, const Losses& plain) {
  bool close = true;
  for (int i = 0; i < kSteps; ++i) close = close && std::abs(one[i] - plain[i]) < 1e-5;
  std::cout << "loss " << one.front() << " -> " << one.back() << "; several ranks "
            << (one == several ? "are the same bits" : "DIFFER") << ", a plain loop "
            << (close ? "agrees" : "DIFFERS") << '\n';
  return one == several && close && one.back() < one.front() ? 0 : 1;
}

inline int report(const Losses& alone, bool same) {
  std::cout << "loss after " << alone.size() / 2 << " steps: " << alone.back()
            << (same ? ", the same bits in every layout\n" : ", other bits in another layout\n");
  return same && !alone.empty() ? 0 : 1;
}
