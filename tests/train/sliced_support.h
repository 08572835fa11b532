#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/sum_in_order.h"
#include "plan/slices.h"
#include "sluice/pipeline.h"
#include "sluice/trainer.h"

namespace sluice::test {

// Four slices are uneven: 2, 3, 2 and 3 inner columns.
inline constexpr std::int64_t kSlicedWidth = 8, kSlicedInner = 10;

inline at::Tensor sum_over(const std::vector<at::Tensor>& own, const Group& group) {
  const at::Tensor sum = sum_in_tree(own, own.front().device());
  return group ? group.all_reduce(sum, SumOrder::kTree).wait() : sum;
}

// Copies x for each slice. The backward sums the gradients in a tree.
struct Fan : torch::autograd::Function<Fan> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& x, std::int64_t slices,
                                                std::shared_ptr<Group> group) {
    context->saved_data["group"] = c10::IValue(reinterpret_cast<std::int64_t>(group.get()));
    torch::autograd::variable_list all;
    for (std::int64_t s = 0; s < slices; ++s) all.push_back(x.clone());
    return all;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto* group = reinterpret_cast<const Group*>(context->saved_data["group"].toInt());
    return {sum_over(gradients, *group), {}, {}};
  }
};

struct Join : torch::autograd::Function<Join> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, std::shared_ptr<Group> group,
                            torch::autograd::variable_list parts) {
    context->saved_data["parts"] = static_cast<std::int64_t>(parts.size());
    return sum_over(parts, *group);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto parts = static_cast<std::size_t>(context->saved_data["parts"].toInt());
    torch::autograd::variable_list all(1);
    all.resize(1 + parts, gradients[0]);
    return all;
  }
};

// y = x + bias + sum over s of W2_s (tanh(W1_s (x * scale) + b1_s) * V1_s (x * scale)). W1 and V1
// are sections of one weight. All slices share `scale`. `bias` belongs to no slice.
struct SlicedBlock : torch::nn::Module, SlicedModule {
  SlicedBlock(SliceRange own, Group tp)
      : own_(own), group_(std::make_shared<Group>(std::move(tp))) {
    gate_up_ = register_parameter("gate_up", at::zeros(shape_of(gate_up())));
    gate_bias_ = register_parameter("gate_bias", at::zeros(shape_of(gate_bias())));
    down_ = register_parameter("down", at::zeros(shape_of(down())));
    bias_ = register_parameter("bias", at::zeros({kSlicedWidth}));
    for (int s = 0; s < own.size(); ++s)
      scales_.push_back(register_parameter(scale_name(s), at::ones({kSlicedWidth})));
  }

  static std::string scale_name(int s) { return s == 0 ? "scale" : "scale_" + std::to_string(s); }
  ParameterSlices gate_up() const {
    return {.global_shape = {2 * kSlicedInner, kSlicedWidth},
            .split = {{.dim = 0, .sections = {kSlicedInner, kSlicedInner}}},
            .slices = own_};
  }
  ParameterSlices gate_bias() const {
    return {.global_shape = {kSlicedInner}, .split = {{.dim = 0}}, .slices = own_};
  }
  ParameterSlices down() const {
    return {.global_shape = {kSlicedWidth, kSlicedInner}, .split = {{.dim = 1}}, .slices = own_};
  }
  static std::vector<std::int64_t> shape_of(const ParameterSlices& held) {
    return detail::sliced_shape(held.global_shape, *held.split, held.slices, "toy");
  }
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override {
    std::vector<std::pair<std::string, ParameterSlices>> all = {
        {"gate_up", gate_up()}, {"gate_bias", gate_bias()}, {"down", down()}};
    for (int s = 0; s < own_.size(); ++s) {
      all.push_back({scale_name(s),
                     {.global_shape = {kSlicedWidth},
                      .slices = {own_.begin + s, own_.begin + s + 1, own_.count},
                      .summed = {Axis::kTp},
                      .first_use = s == 0 ? "" : "scale"}});
    }
    return all;
  }

  at::Tensor forward(const at::Tensor& x) {
    const auto fanned = Fan::apply(x, own_.size(), group_);
    const std::int64_t held = gate_bias_.numel();
    const std::int64_t before = detail::cut_of(kSlicedInner, own_).begin;
    torch::autograd::variable_list parts;
    for (int s = 0; s < own_.size(); ++s) {
      const detail::Cut cut =
          detail::cut_of(kSlicedInner, {own_.begin + s, own_.begin + s + 1, own_.count});
      const std::int64_t at = cut.begin - before;
      const at::Tensor normed =
          fanned[static_cast<std::size_t>(s)] * scales_[static_cast<std::size_t>(s)];
      const at::Tensor gate = at::linear(normed, gate_up_.narrow(0, at, cut.size()),
                                         gate_bias_.narrow(0, at, cut.size()));
      const at::Tensor up = at::linear(normed, gate_up_.narrow(0, held + at, cut.size()));
      parts.push_back(
          at::linear(at::tanh(gate) * up, down_.narrow(1, at, cut.size()).contiguous()));
    }
    return x + Join::apply(group_, parts) + bias_;
  }

 private:
  const SliceRange own_;
  const std::shared_ptr<Group> group_;
  at::Tensor gate_up_, gate_bias_, down_, bias_;
  std::vector<at::Tensor> scales_;
};

// The model is undivided until a hook divides it. If `tied`, the last block shares a weight with
// the first.
inline Model sliced_model(bool tied = false, int blocks = 4) {
  Model model;
  for (int i = 0; i < blocks; ++i) {
    model.layers.push_back(layer(
        "blocks." + std::to_string(i), {i == 0 ? "x" : "hidden"}, {"hidden"},
        [] { return std::make_shared<SlicedBlock>(SliceRange{}, Group()); },
        [i](SlicedBlock& block, const Values& in) {
          return block.forward(in[i == 0 ? "x" : "hidden"]);
        }));
    model.layers.back().initialize = [](const std::string& name, const std::string& key,
                                        at::Tensor& value, std::uint64_t seed) {
      keyed_normal_(value, seed, key, name.starts_with("scale") ? 1.0 : 0.0, 0.3);
    };
  }
  if (tied) model.layers.back().ties = {{"down", "blocks.0.down"}};
  model.layers.push_back(layer(
      "head", {"hidden"}, {"hidden"}, [] { return torch::nn::Linear(kSlicedWidth, 4); },
      [](torch::nn::LinearImpl& head, const Values& in) { return head.forward(in["hidden"]); }));
  model.inputs = {"x", "y"};
  model.outputs = {"hidden"};
  model.count = [](const Values& batch) { return batch.get("y").size(0); };
  model.loss = mean_loss(
      [](const Values& out, const Values& in) { return torch::mse_loss(out["hidden"], in["y"]); });
  return model;
}

inline Parallelize divide(const TensorParallel& how) {
  return [how](LocalChunk& chunk) {
    const MeshAxis& tp = chunk.world_mesh["tp"];
    const SliceRange own = detail::slices_of(tp.coordinate, how);
    for (std::size_t i = 0; i < chunk.layers.size(); ++i) {
      if (!chunk.modules[i] || !chunk.modules[i]->as<SlicedBlock>()) continue;
      chunk.modules[i] = std::make_shared<SlicedBlock>(own, tp.group);
      for (int s = 1; s < own.size(); ++s)
        chunk.added.push_back(chunk.layers[i] + "." + SlicedBlock::scale_name(s));
    }
  };
}

}  // namespace sluice::test
