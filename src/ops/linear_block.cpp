#include "ops/linear_block.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <utility>
#include <vector>

#include "layer/call_place.h"
#include "ops/block_parts.h"
#include "ops/slices.h"

namespace sluice::ops {
namespace {

class LinearNode final : public SplitNode {
 public:
  LinearNode(const at::Tensor& x, LinearWeights weights)
      : x_(x), w_(std::move(weights)), sizes_(x.sizes().vec()), rows_(x.numel() / w_.in()) {}

  std::string name() const override { return "LinearBlock"; }
  std::vector<at::Tensor> weights() const { return {w_.weight, w_.bias}; }

  at::Tensor forward() {
    std::vector<std::int64_t> sizes = sizes_;
    sizes.back() = w_.out();
    at::Tensor y = at::empty(sizes, x_.options());
    linear(rows_, w_, {x_.const_data_ptr<float>(), w_.in()},
           {y.mutable_data_ptr<float>(), w_.out()});
    if (!w_.weight.requires_grad()) x_.reset();  // the bias gradient does not need x
    return y;
  }

 protected:
  Work<at::Tensor> input_half(const at::Tensor& gradient, bool wanted) override {
    if (!wanted) return ready({});
    at::Tensor dx = at::empty(sizes_, gradient.options());
    linear_input_gradient(rows_, w_, {gradient.const_data_ptr<float>(), w_.out()},
                          {dx.mutable_data_ptr<float>(), w_.in()});
    return ready(dx);
  }
  void weight_half(const at::Tensor& gradient, WeightGradients& gradients) override {
    give_linear(rows_, w_, 0, {gradient.const_data_ptr<float>(), w_.out()},
                {x_.defined() ? x_.const_data_ptr<float>() : nullptr, w_.in()}, 1, gradients);
  }
  void free_input_half() override {}
  void free_all() override { x_.reset(); }

 private:
  at::Tensor x_;
  const LinearWeights w_;
  const std::vector<std::int64_t> sizes_;
  const std::int64_t rows_;
};

class NormNode final : public SplitNode {
 public:
  NormNode(const at::Tensor& x, NormWeights weights, SliceGroup tp)
      : x_(x),
        w_(std::move(weights)),
        tp_(std::move(tp)),
        rows_(x.numel() / w_.width()),
        blocks_(row_blocks(x, tp_)) {}

  std::string name() const override { return "NormBlock"; }
  std::vector<at::Tensor> weights() const { return {w_.weight, w_.bias}; }

  at::Tensor forward() {
    statistics_ = at::empty({rows_ * kNormFloats}, x_.options());
    at::Tensor y = at::empty_like(x_);
    norm_blocks(w_, blocks_, x_.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
                statistics_.mutable_data_ptr<float>());
    const detail::WeightPlace place(w_.weight);
    share_backward(tp_);
    return y;
  }

 protected:
  Work<at::Tensor> input_half(const at::Tensor& gradient, bool /*wanted*/) override {
    gradients_ = at::empty({w_.weight_floats()}, x_.options());
    at::Tensor dx = at::empty_like(x_);
    norm_gradient_blocks(w_, blocks_, gradient.const_data_ptr<float>(), x_.const_data_ptr<float>(),
                         statistics_.const_data_ptr<float>(), nullptr, dx.mutable_data_ptr<float>(),
                         gradients_.mutable_data_ptr<float>());
    if (divides_rows(tp_))
      sum_over_ranks(gradients_.mutable_data_ptr<float>(), gradients_.numel(), in_backward());
    return ready(dx);
  }
  void weight_half(const at::Tensor& /*gradient*/, WeightGradients& gradients) override {
    give_norm(w_, 0, gradients_.mutable_data_ptr<float>(), gradients);
  }
  void free_input_half() override {
    statistics_.reset();
    x_.reset();
  }
  void free_all() override {
    free_input_half();
    gradients_.reset();
  }

 private:
  at::Tensor x_;
  const NormWeights w_;
  const SliceGroup tp_;
  const std::int64_t rows_;
  const std::vector<RowBlock> blocks_;
  at::Tensor statistics_, gradients_;
};

}  // namespace

at::Tensor linear_block(const at::Tensor& x, const LinearWeights& weights) {
  return run_node<LinearNode>(x, weights);
}

at::Tensor norm_block(const at::Tensor& x, const NormWeights& weights, const SliceGroup& slices) {
  return run_node<NormNode>(x, weights, slices);
}

}  // namespace sluice::ops
