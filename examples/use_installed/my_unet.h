// A small U-Net of your own. Each level down passes a skip to the level up, and the tail returns a
// mean and a spread. This file does not use sluice.
#pragma once

#include <torch/nn/modules/linear.h>

#include <functional>
#include <string>

constexpr std::int64_t kWidth = 32;

// All values that pass between parts. Values that do not exist at that point are undefined.
struct Flow {
  at::Tensor x, skip1, skip2;  // inputs of a part
  at::Tensor mean, spread;     // outputs of the tail
};

struct UNetImpl : torch::nn::Module {
  using Keep = std::function<bool(const std::string&)>;
  // keep: whether to make the child of this name.
  explicit UNetImpl(const Keep& keep = [](const std::string&) { return true; }) {
    const auto level = [&](const char* name, torch::nn::Linear& holder, std::int64_t from,
                           std::int64_t to) {
      if (keep(name)) holder = register_module(name, torch::nn::Linear(from, to));
    };
    level("down1", down1, kWidth, kWidth);
    level("down2", down2, kWidth, kWidth / 2);
    level("middle", middle, kWidth / 2, kWidth / 2);
    level("up2", up2, kWidth / 2, kWidth / 2);
    level("up1", up1, kWidth / 2, kWidth);
    level("tail", tail, kWidth, 2 * kWidth);
  }
  Flow forward(Flow f) {
    if (down1) f.x = f.skip1 = at::tanh(down1(f.x));
    if (down2) f.x = f.skip2 = at::tanh(down2(f.x));
    if (middle) f.x = at::tanh(middle(f.x));
    if (up2) f.x = at::tanh(up2(f.x)) + f.skip2;
    if (up1) f.x = at::tanh(up1(f.x)) + f.skip1;
    if (tail) {
      const auto halves = tail(f.x).chunk(2, 1);
      f.mean = halves[0];
      f.spread = at::softplus(halves[1]);
    }
    return f;
  }
  torch::nn::Linear down1{nullptr}, down2{nullptr}, middle{nullptr}, up2{nullptr}, up1{nullptr},
      tail{nullptr};
};
TORCH_MODULE(UNet);

inline void my_init(const std::string& name, at::Tensor& value) {
  value.copy_(at::arange(value.numel(), at::kFloat)
                  .mul_(1.3)
                  .add_(double(name.size()))
                  .sin_()
                  .mul_(0.2)
                  .view_as(value));
}

inline at::Tensor my_signal(int step) {
  return at::arange(24 * kWidth, at::kFloat).mul_(0.11).add_(step).sin_().view({24, kWidth});
}

// Twice the negative log-likelihood of a normal distribution, up to a constant.
inline at::Tensor my_loss(const at::Tensor& mean, const at::Tensor& spread,
                          const at::Tensor& wanted) {
  return (((wanted - mean) / (spread + 0.1)).square() + 2 * (spread + 0.1).log()).mean();
}
