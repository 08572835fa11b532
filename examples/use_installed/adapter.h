// A low-rank adapter beside a block of some model. This file does not use sluice.
#pragma once

#include <torch/nn/modules/linear.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

using ModulePtr = std::shared_ptr<torch::nn::Module>;

inline ModulePtr frozen(ModulePtr module) {
  for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(false);
  return module;
}

// y = block(x) + up(down(x)). The block is frozen and its weights keep their names.
struct Adapted : torch::nn::Module {
  Adapted(ModulePtr the_block, std::int64_t width, std::int64_t rank)
      : block(frozen(std::move(the_block))),
        down(torch::nn::LinearOptions(width, rank).bias(false)),
        up(torch::nn::LinearOptions(rank, width).bias(false)) {
    for (const auto& child : block->named_children()) register_module(child.key(), child.value());
    register_module("adapter_down", down);
    register_module("adapter_up", up);
  }
  ModulePtr block;
  torch::nn::Linear down, up;
};

using Init = std::function<void(const std::string& name, at::Tensor& value)>;

// Initial values: random ones for adapters, stored ones for all other parameters.
inline Init my_init_and(const Init& stored) {
  return [stored](const std::string& name, at::Tensor& value) {
    if (name.ends_with("adapter_down.weight")) value.normal_(0, 0.1);
    if (name.ends_with("adapter_up.weight")) value.zero_();
    stored(name, value);
  };
}

// Every rank computes the same tokens.
inline at::Tensor my_tokens(int step) {
  return (at::arange(8 * 16).mul_(7).add_(13 * step).square() % 100).view({8, 16});
}
