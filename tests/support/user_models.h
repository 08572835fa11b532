// Models made of LibTorch's own modules, like a user's models.
#pragma once

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <string>
#include <vector>

#include "engine/executor.h"
#include "sluice/layer.h"

namespace sluice::test {

struct ResidualBlock : torch::nn::Module {
  ResidualBlock(std::int64_t width, double dropout)
      : norm(torch::nn::LayerNormOptions({width})),
        up(width, 2 * width),
        down(2 * width, width),
        drop(dropout) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
    register_module("drop", drop);
  }
  at::Tensor forward(const at::Tensor& x) { return x + drop(down(at::gelu(up(norm(x))))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
  torch::nn::Dropout drop;
};

// y = x * w. Its backward computes all gradients at once, so the layer's backward cannot be split.
struct ScaleFunction : torch::autograd::Function<ScaleFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& w) {
    context->save_for_backward({x, w});
    return x * w;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0] * saved[1], (gradients[0] * saved[0]).sum_to_size(saved[1].sizes())};
  }
};
struct CustomScale : torch::nn::Module {
  explicit CustomScale(std::int64_t width) {
    weight = register_parameter("weight", at::ones({width}));
  }
  at::Tensor forward(const at::Tensor& x) { return ScaleFunction::apply(x, weight); }
  at::Tensor weight;
};

struct TwiceUsed : torch::nn::Module {
  explicit TwiceUsed(std::int64_t width) : linear(width, width) {
    register_module("linear", linear);
    gain = register_parameter("gain", at::ones({width}));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = at::tanh(linear(x)) * gain;
    return x + at::tanh(linear(y)) * gain;
  }
  torch::nn::Linear linear;
  at::Tensor gain;
};

template <typename Module, typename... Args>
LayerSpec layer_of(const std::string& name, Args... args) {
  LayerSpec layer;
  layer.name = name;
  layer.make = [=] { return std::make_shared<Module>(args...); };
  layer.forward = [](torch::nn::Module& module, const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{static_cast<Module&>(module).forward(inputs[0])};
  };
  layer.shapes = [](const std::vector<TensorMeta>& inputs) { return inputs; };
  return layer;
}

inline LayerSpec linear_layer(const std::string& name, std::int64_t from, std::int64_t to) {
  LayerSpec layer = layer_of<torch::nn::LinearImpl>(name, from, to);
  layer.shapes = [=](const std::vector<TensorMeta>& inputs) {
    std::vector<TensorMeta> outputs = inputs;
    outputs[0].sizes.back() = to;
    return outputs;
  };
  return layer;
}

enum class UserModel { kMlp, kUnsplittable, kShared };

// x [N, width] -> prediction [N, width]
inline std::vector<LayerSpec> make_user_layers(UserModel model, int blocks, std::int64_t width,
                                               double dropout) {
  std::vector<LayerSpec> layers{linear_layer("first", width, width)};
  layers.front().reads = {"x"};
  for (int i = 0; i < blocks; ++i) {
    const std::string name = "block" + std::to_string(i);
    if (model == UserModel::kUnsplittable && i % 2 == 1) {
      layers.push_back(layer_of<CustomScale>(name, width));
    } else if (model == UserModel::kShared && i % 2 == 1) {
      layers.push_back(layer_of<TwiceUsed>(name, width));
    } else {
      layers.push_back(layer_of<ResidualBlock>(name, width, dropout));
    }
  }
  layers.push_back(linear_layer("last", width, width));
  layers.back().writes = {"prediction"};
  return layers;
}

inline LossValue squared_error(const Values& outputs, const Values& batch) {
  const at::Tensor difference = outputs.get("prediction") - batch.get("y");
  return {(difference * difference).sum(), difference.numel()};
}

}  // namespace sluice::test
