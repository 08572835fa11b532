// A low-rank adapter beside a block of some model: nothing of sluice is known here.
#pragma once

#include <torch/nn/modules/linear.h>

#include <memory>
#include <utility>

using ModulePtr = std::shared_ptr<torch::nn::Module>;

inline ModulePtr frozen(ModulePtr module) {
  for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
  return module;
}

// y = block(x) + up(down(x)): the block is frozen and its weights keep their names; up begins at
// zero.
struct Adapted : torch::nn::Module {
  Adapted(ModulePtr the_block, std::int64_t width, std::int64_t rank)
      : block(frozen(std::move(the_block))),
        down(torch::nn::LinearOptions(width, rank).bias(false)),
        up(torch::nn::LinearOptions(rank, width).bias(false)) {
    for (const auto& child : block->named_children()) register_module(child.key(), child.value());
    register_module("adapter_down", down);
    register_module("adapter_up", up);
    const at::NoGradGuard no_grad;
    down->weight.copy_(0.1 * at::arange(width * rank, at::kFloat).sin().view({rank, width}));
    up->weight.zero_();
  }
  ModulePtr block;
  torch::nn::Linear down, up;
};

// The same on every rank: each makes its own.
inline at::Tensor my_tokens(int step) {
  return (at::arange(8 * 16).mul_(7).add_(13 * step).square() % 100).view({8, 16});
}
