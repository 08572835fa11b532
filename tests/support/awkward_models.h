// Models that are hard to pipeline. Each has one difficulty that user code may have.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/user_batches.h"

namespace sluice::test {

using Tensors = std::vector<at::Tensor>;

struct Workshop : torch::nn::Module {
  explicit Workshop(std::int64_t width)
      : linear(torch::nn::LinearOptions(width, width)), norm(width) {
    register_module("linear", linear);
    register_module("norm", norm);
    extra = register_parameter("extra", at::ones({width}));
  }
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm;
  at::Tensor extra;
};

using WorkshopForward = std::function<Tensors(Workshop&, const Tensors&)>;

inline LayerSpec workshop(const std::string& name, std::vector<std::string> reads,
                          std::vector<std::string> writes, WorkshopForward forward,
                          bool frozen = false) {
  LayerSpec layer;
  layer.name = name;
  layer.reads = std::move(reads);
  layer.writes = std::move(writes);
  layer.make = [frozen] {
    auto module = std::make_shared<Workshop>(16);
    for (at::Tensor& parameter : module->parameters()) parameter.set_requires_grad(!frozen);
    return module;
  };
  layer.forward = [forward = std::move(forward)](torch::nn::Module& module, const Tensors& inputs) {
    return forward(static_cast<Workshop&>(module), inputs);
  };
  return layer;
}

inline LayerSpec plain_layer(const std::string& name, bool frozen = false) {
  return workshop(
      name, {"hidden"}, {"hidden"},
      [](Workshop& m, const Tensors& in) { return Tensors{at::tanh(m.linear(in[0]))}; }, frozen);
}

inline LayerSpec function_layer(const std::string& name, std::vector<std::string> reads,
                                std::vector<std::string> writes,
                                std::function<Tensors(const Tensors&)> forward) {
  LayerSpec layer;
  layer.name = name;
  layer.reads = std::move(reads);
  layer.writes = std::move(writes);
  layer.forward = [forward = std::move(forward)](torch::nn::Module&, const Tensors& inputs) {
    return forward(inputs);
  };
  return layer;
}

// The first of the eight layers must read "x", the last must write "prediction".
inline Model model_of_layers(std::vector<LayerSpec> layers) {
  return {std::move(layers), {"x", "y"}, {"prediction"}, &squared_error};
}

inline LayerSpec renamed(LayerSpec layer, const std::string& reads, const std::string& writes) {
  for (std::string& name : layer.reads) name = name == "hidden" ? reads : name;
  for (std::string& name : layer.writes) name = name == "hidden" ? writes : name;
  return layer;
}

// Eight plain layers, in which `middle` replaces the layers from index `at` on.
inline Model with_layers(std::size_t at, const std::vector<LayerSpec>& middle) {
  std::vector<LayerSpec> layers;
  for (std::size_t i = 0; i < 8; ++i) {
    layers.push_back(i >= at && i < at + middle.size() ? middle[i - at]
                                                       : plain_layer("layer" + std::to_string(i)));
  }
  layers.front() = renamed(layers.front(), "x", "hidden");
  layers.back() = renamed(layers.back(), "hidden", "prediction");
  return model_of_layers(std::move(layers));
}

inline Model everywhere(const WorkshopForward& forward) {
  std::vector<LayerSpec> layers;
  for (int i = 0; i < 8; ++i)
    layers.push_back(workshop("layer" + std::to_string(i), {"hidden"}, {"hidden"}, forward));
  return with_layers(0, layers);
}

struct NoWeightGradient : torch::autograd::Function<NoWeightGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& w) {
    context->save_for_backward({w});
    return x * w;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0], at::Tensor()};
  }
};

struct NoInputGradient : torch::autograd::Function<NoInputGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x,
                            const at::Tensor& w) {
    return x * w;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {at::Tensor(), gradients[0].sum(0)};
  }
};

// Activation checkpointing as a user may write it.
struct Recompute : torch::autograd::Function<Recompute> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& /*makes the output want a gradient*/,
                            Workshop* module) {
    context->saved_data["module"] = reinterpret_cast<std::int64_t>(module);
    context->save_for_backward({x});
    const at::NoGradGuard no_grad;
    return at::gelu(module->linear(x)) * module->extra;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* module = reinterpret_cast<Workshop*>(context->saved_data["module"].toInt());
    at::Tensor x = context->get_saved_variables()[0].detach();
    x.set_requires_grad(true);
    const at::AutoGradMode with_grad(true);
    const at::Tensor y = at::gelu(module->linear(x)) * module->extra;
    torch::autograd::backward({y}, {gradients[0]});
    return {x.grad(), at::Tensor(), at::Tensor()};
  }
};

struct AwkwardModel {
  std::string name;
  Model model;
};

inline std::vector<AwkwardModel> awkward_models() {
  const auto linear = [](Workshop& m, const at::Tensor& x) { return m.linear(x); };
  const auto frozen = [](int i) { return plain_layer("layer" + std::to_string(i), true); };
  const auto scale = [](const std::string& name) {
    return function_layer(name, {"hidden"}, {"hidden"},
                          [](const Tensors& in) { return Tensors{in[0] * 0.5}; });
  };
  std::vector<AwkwardModel> models;
  const auto add = [&](const std::string& name, Model model) {
    models.push_back({name, std::move(model)});
  };

  add("first layer without parameters", with_layers(0, {scale("layer0")}));
  add("first two layers without parameters", with_layers(0, {scale("layer0"), scale("layer1")}));
  add("a stage without parameters", with_layers(2, {scale("layer2"), scale("layer3")}));
  add("last layers without parameters", with_layers(6, {scale("layer6"), scale("layer7")}));
  add("first layer frozen", with_layers(0, {frozen(0)}));
  add("first three layers frozen", with_layers(0, {frozen(0), frozen(1), frozen(2)}));
  add("middle layers frozen", with_layers(2, {frozen(2), frozen(3), frozen(4), frozen(5)}));
  add("last layers frozen", with_layers(5, {frozen(5), frozen(6), frozen(7)}));
  add("only the last layer trains", with_layers(0, {frozen(0), frozen(1), frozen(2), frozen(3),
                                                    frozen(4), frozen(5), frozen(6)}));

  add("a value made of weights alone",
      with_layers(3, {workshop("layer3", {"hidden"}, {"hidden", "shift"},
                               [=](Workshop& m, const Tensors& in) {
                                 return Tensors{at::tanh(linear(m, in[0])), at::tanh(m.extra)};
                               }),
                      plain_layer("layer4"), plain_layer("layer5"),
                      workshop("layer6", {"hidden", "shift"}, {"hidden"},
                               [=](Workshop& m, const Tensors& in) {
                                 return Tensors{linear(m, in[0]) + in[1]};
                               })}));
  add("a parameter that crosses itself and is used where it is made, too",
      with_layers(1, {workshop("layer1", {"hidden"}, {"hidden", "shift"},
                               [=](Workshop& m, const Tensors& in) {
                                 return Tensors{linear(m, in[0]) * m.extra, m.extra};
                               }),
                      plain_layer("layer2"), plain_layer("layer3"), plain_layer("layer4"),
                      workshop("layer5", {"hidden", "shift"}, {"hidden"},
                               [=](Workshop& m, const Tensors& in) {
                                 return Tensors{linear(m, in[0]) * in[1]};
                               })}));
  add("a whole stage that only relays and makes a value of weights",
      with_layers(
          2,
          {workshop(
               "layer2", {}, {"table"},
               [=](Workshop& m, const Tensors&) { return Tensors{linear(m, at::tanh(m.extra))}; }),
           workshop("layer3", {"table"}, {"table"},
                    [=](Workshop& m, const Tensors& in) { return Tensors{linear(m, in[0])}; }),
           workshop("layer4", {"hidden", "table"}, {"hidden"}, [=](Workshop& m, const Tensors& in) {
             return Tensors{linear(m, in[0]) + in[1]};
           })}));
  add("integers and masks cross",
      with_layers(
          1, {workshop(
                  "layer1", {"hidden"}, {"hidden", "index", "mask"},
                  [=](Workshop& m, const Tensors& in) {
                    const at::Tensor y = linear(m, in[0]);
                    return Tensors{y, y.detach().argsort(/*dim=*/std::int64_t{1}), y.detach() > 0};
                  }),
              plain_layer("layer2"), plain_layer("layer3"), plain_layer("layer4"),
              workshop("layer5", {"hidden", "index", "mask"}, {"hidden"},
                       [=](Workshop& m, const Tensors& in) {
                         return Tensors{linear(m, in[0].gather(1, in[1])) *
                                        at::where(in[2], 1.0, 0.5)};
                       })}));
  add("an optional value that is not there crosses",
      with_layers(1, {workshop("layer1", {"hidden"}, {"hidden", "option"},
                               [=](Workshop& m, const Tensors& in) {
                                 return Tensors{linear(m, in[0]), at::Tensor()};
                               }),
                      plain_layer("layer2"), plain_layer("layer3"), plain_layer("layer4"),
                      workshop("layer5", {"hidden", "option"}, {"hidden"},
                               [=](Workshop& m, const Tensors& in) {
                                 const at::Tensor y = linear(m, in[0]);
                                 return Tensors{in[1].defined() ? y + in[1] : y};
                               })}));
  add("one tensor under two names",
      with_layers(1, {workshop("layer1", {"hidden"}, {"hidden", "twin"},
                               [=](Workshop& m, const Tensors& in) {
                                 const at::Tensor y = at::tanh(linear(m, in[0]));
                                 return Tensors{y, y};
                               }),
                      plain_layer("layer2"), plain_layer("layer3"), plain_layer("layer4"),
                      workshop("layer5", {"hidden", "twin"}, {"hidden"},
                               [=](Workshop& m, const Tensors& in) {
                                 return Tensors{linear(m, in[0]) + in[1]};
                               })}));
  add("three readers in three stages",
      with_layers(
          0,
          {renamed(plain_layer("layer0"), "x", "skip"),
           renamed(plain_layer("layer1"), "skip", "hidden"),
           workshop(
               "layer2", {"hidden", "skip"}, {"hidden"},
               [=](Workshop& m, const Tensors& in) { return Tensors{linear(m, in[0]) * in[1]}; }),
           workshop(
               "layer3", {"hidden", "skip"}, {"hidden"},
               [=](Workshop& m, const Tensors& in) { return Tensors{linear(m, in[0]) + in[1]}; }),
           plain_layer("layer4"),
           workshop("layer5", {"hidden", "skip"}, {"hidden"}, [=](Workshop& m, const Tensors& in) {
             return Tensors{linear(m, in[0]) - in[1] * in[0]};
           })}));
  add("inputs changed in place", everywhere([=](Workshop& m, const Tensors& in) {
        at::Tensor x = in[0].requires_grad() ? in[0] : in[0].clone();
        x.mul_(0.75).add_(0.1);
        return Tensors{linear(m, x)};
      }));
  add("outputs that are views of the input",
      with_layers(2, {function_layer("layer2", {"hidden"}, {"hidden"},
                                     [](const Tensors& in) { return Tensors{in[0].flip(1).t()}; }),
                      function_layer("layer3", {"hidden"}, {"hidden"},
                                     [](const Tensors& in) { return Tensors{in[0].t()}; }),
                      function_layer("layer4", {"hidden"}, {"hidden", "half"},
                                     [](const Tensors& in) {
                                       return Tensors{in[0], in[0].narrow(1, 0, 8)};
                                     }),
                      plain_layer("layer5"),
                      workshop("layer6", {"hidden", "half"}, {"hidden"},
                               [=](Workshop& m, const Tensors& in) {
                                 return Tensors{linear(m, in[0]) + in[1].repeat({1, 2})};
                               })}));
  add("expanded outputs and gradients",
      with_layers(
          2,
          {workshop("layer2", {"hidden"}, {"hidden", "row"},
                    [=](Workshop& m, const Tensors& in) {
                      const at::Tensor y = linear(m, in[0]);
                      return Tensors{y, y.mean(1, true).expand({y.size(0), 16}) * m.extra.sum()};
                    }),
           plain_layer("layer3"), plain_layer("layer4"), plain_layer("layer5"),
           workshop("layer6", {"hidden", "row"}, {"hidden"}, [=](Workshop& m, const Tensors& in) {
             return Tensors{linear(m, in[0]) + in[1].sum() * 0.01};
           })}));
  add("hooks on every output", everywhere([=](Workshop& m, const Tensors& in) {
        at::Tensor y = at::tanh(linear(m, in[0]));
        if (y.requires_grad()) y.register_hook([](const at::Tensor& g) { return g * 1.5; });
        at::Tensor z = y * m.extra;
        if (z.requires_grad()) z.register_hook([](const at::Tensor& g) { return g * 0.75; });
        return Tensors{z};
      }));
  add("custom functions without gradients for weights",
      everywhere([=](Workshop& m, const Tensors& in) {
        return Tensors{NoWeightGradient::apply(linear(m, in[0]), m.extra)};
      }));
  add("a custom function without a gradient for its input",
      with_layers(4,
                  {workshop("layer4", {"hidden"}, {"hidden"}, [=](Workshop& m, const Tensors& in) {
                    return Tensors{NoInputGradient::apply(in[0], m.extra)};
                  })}));
  add("a part that needs no gradient cuts the graph",
      with_layers(4,
                  {workshop("layer4", {"hidden"}, {"hidden"}, [=](Workshop& m, const Tensors& in) {
                    return Tensors{linear(m, in[0].detach())};
                  })}));
  add("recomputation in backward", everywhere([](Workshop& m, const Tensors& in) {
        return Tensors{in[0] + Recompute::apply(in[0], m.extra, &m)};
      }));
  add("batch norm", everywhere([=](Workshop& m, const Tensors& in) {
        return Tensors{m.norm(linear(m, in[0]))};
      }));
  add("weights used or not as the data say", everywhere([=](Workshop& m, const Tensors& in) {
        return Tensors{in[0].size(0) % 2 ? at::tanh(linear(m, in[0])) : in[0] * m.extra};
      }));
  add("a weight used in two ways", everywhere([=](Workshop& m, const Tensors& in) {
        const at::Tensor w = m.linear->weight;
        return Tensors{at::tanh(in[0].matmul(w).matmul(w.t())) + m.extra * in[0] + m.extra};
      }));
  return models;
}

}  // namespace sluice::test
