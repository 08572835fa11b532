#include "ops/feed_forward_block.h"

#include <ATen/ops/empty_like.h>

#include <cstring>
#include <utility>

#include "ops/block_parts.h"
#include "ops/kept_memory.h"
#include "ops/parallel_rows.h"

namespace sluice::ops {
namespace {

class FeedForwardNode final : public SplitNode {
 public:
  FeedForwardNode(const at::Tensor& x_BLD, FeedForwardBlock block)
      : x_(x_BLD),
        b_(std::move(block)),
        hidden_(x_BLD.size(-1)),
        rows_(x_BLD.numel() / hidden_),
        inner_(b_.down.in()),
        num_inner_(b_.is_gated ? 2 : 1),
        apart_(b_.projections.size() == 1 ? num_inner_ * inner_ : inner_) {}

  std::string name() const override { return "FeedForwardBlock"; }

  // In the order of the indices below.
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> all{b_.before.weight, b_.before.bias, b_.behind.weight,
                                b_.behind.bias,   b_.down.weight, b_.down.bias};
    for (const LinearWeights& projection : b_.projections) {
      all.push_back(projection.weight);
      all.push_back(projection.bias);
    }
    return all;
  }

  at::Tensor forward() {
    take_forward_memory();
    const float* x = x_.const_data_ptr<float>();
    if (b_.before.is_there()) norm(b_.before, rows_, {x, hidden_}, {normed_, hidden_}, before_);
    for (std::size_t i = 0; i < b_.projections.size(); ++i)
      linear(rows_, b_.projections[i], {input(), hidden_}, {projection(i), apart_});
    activate();
    at::Tensor y_BLD = at::empty_like(x_);
    auto* y = y_BLD.mutable_data_ptr<float>();
    const ConstRows inner{activated_, inner_};
    if (!b_.behind.is_there()) {
      add_result(rows_, b_.down, inner, b_.adds_input ? x : nullptr, b_.residual_scale, y);
      return y_BLD;
    }
    linear(rows_, b_.down, inner, {result_, hidden_});
    norm(b_.behind, rows_, {result_, hidden_}, {y, hidden_}, behind_);
    if (b_.adds_input) kernels().sum_scaled(rows_ * hidden_, x, b_.residual_scale, y, y);
    return y_BLD;
  }

 protected:
  at::Tensor input_half(const at::Tensor& gradient, bool wanted) override {
    const auto* dy = gradient.const_data_ptr<float>();
    const auto floats = [](const NormWeights& norm) {
      return norm.is_there() ? norm.weight_floats() : 0;
    };
    gradients_ = take_memory((b_.behind.is_there() ? rows_ * hidden_ : 0) + floats(b_.before) +
                             floats(b_.behind));
    Floats all(gradients_.data());
    d_before_ = all.take(floats(b_.before));
    d_behind_ = all.take(floats(b_.behind));
    const float* d_result = dy;
    float scale = b_.residual_scale;
    if (b_.behind.is_there()) {
      d_result_ = all.take(rows_ * hidden_);
      norm_gradient(b_.behind, rows_, {dy, hidden_}, {result_, hidden_}, behind_, nullptr,
                    {d_result_, hidden_}, d_behind_);
      scale_all(rows_ * hidden_, scale, d_result_);
      scale_all(floats(b_.behind), scale, d_behind_);
      d_result = d_result_;
      scale = 1;
    }
    {
      const KeptBlock d_activated = take_memory(rows_ * inner_);
      linear_input_gradient(rows_, b_.down, {d_result, hidden_}, {d_activated.data(), inner_},
                            scale);
      activate_gradient(d_activated.data());
    }
    const bool trains_before = is_weight(kBefore) || is_weight(kBefore + 1);
    if (!wanted && !trains_before) return {};
    return gradient_of_input(dy);
  }

  void weight_half(const at::Tensor& gradient, WeightGradients& gradients) override {
    const bool has_behind = b_.behind.is_there();
    const ConstRows d_result{has_behind ? d_result_ : gradient.const_data_ptr<float>(), hidden_};
    give_linear(rows_, b_.down, kDown, d_result, {activated_, inner_},
                has_behind ? 1 : b_.residual_scale, gradients);
    for (std::size_t i = 0; i < b_.projections.size(); ++i) {
      give_linear(rows_, b_.projections[i], kProjections + 2 * i, {projection(i), apart_},
                  {input(), hidden_}, 1, gradients);
    }
    give_norm(b_.before, kBefore, d_before_, gradients);
    give_norm(b_.behind, kBehind, d_behind_, gradients);
  }

  void free_input_half() override {
    only_input_.reset();
    if (b_.before.is_there()) x_.reset();  // else the weights' half reads it
  }
  void free_all() override {
    for (KeptBlock* memory : {&kept_, &only_input_, &gradients_}) memory->reset();
    x_.reset();
  }

 private:
  // Places in weights().
  static constexpr std::size_t kBefore = 0, kBehind = 2, kDown = 4, kProjections = 6;

  void take_forward_memory() {
    const bool has_before = b_.before.is_there(), has_behind = b_.behind.is_there();
    kept_ = take_memory(rows_ * ((num_inner_ + 1) * inner_ + (has_before ? hidden_ : 0)));
    Floats kept(kept_.data());
    projected_ = kept.take(rows_ * num_inner_ * inner_);
    activated_ = kept.take(rows_ * inner_);
    if (has_before) normed_ = kept.take(rows_ * hidden_);
    only_input_ = take_memory(
        rows_ * ((has_before ? kNormFloats : 0) + (has_behind ? hidden_ + kNormFloats : 0)));
    Floats only(only_input_.data());
    if (has_before) before_ = only.take(rows_ * kNormFloats);
    if (!has_behind) return;
    result_ = only.take(rows_ * hidden_);
    behind_ = only.take(rows_ * kNormFloats);
  }

  const float* input() const { return b_.before.is_there() ? normed_ : x_.const_data_ptr<float>(); }
  // Results of projection i, and later their gradients. Gate and up each fill a matrix of their
  // own where they are two products: both of one half would leave the cache sooner.
  float* projection(std::size_t i) const {
    return projected_ + static_cast<std::int64_t>(i) * rows_ * inner_;
  }
  float* up() const { return b_.projections.size() == 1 ? projected_ + inner_ : projection(1); }

  void activate() const {
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      float* to = activated_ + begin * inner_;
      if (b_.is_gated) {
        kernels().gated(b_.activation, end - begin, inner_, projected_ + begin * apart_,
                        up() + begin * apart_, apart_, to);
      } else {
        kernels().activation(b_.activation, (end - begin) * inner_, projected_ + begin * inner_,
                             to);
      }
    });
  }

  void activate_gradient(const float* d_activated) const {
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      const float* from = d_activated + begin * inner_;
      if (b_.is_gated) {
        kernels().gated_gradient(b_.activation, end - begin, inner_, projected_ + begin * apart_,
                                 up() + begin * apart_, apart_, from);
      } else {
        kernels().activation_gradient(b_.activation, (end - begin) * inner_,
                                      projected_ + begin * inner_, from);
      }
    });
  }

  at::Tensor gradient_of_input(const float* dy) const {
    at::Tensor dx_BLD = at::empty_like(x_);
    auto* dx = dx_BLD.mutable_data_ptr<float>();
    if (b_.before.is_there()) {
      const KeptBlock d_normed = take_memory(rows_ * hidden_);
      project_gradient(d_normed.data(), /*adds=*/false);
      norm_gradient(b_.before, rows_, {d_normed.data(), hidden_},
                    {x_.const_data_ptr<float>(), hidden_}, before_, b_.adds_input ? dy : nullptr,
                    {dx, hidden_}, d_before_);
    } else {
      if (b_.adds_input)
        std::memcpy(dx, dy, static_cast<std::size_t>(rows_ * hidden_) * sizeof(float));
      project_gradient(dx, b_.adds_input);
    }
    return dx_BLD;
  }

  void project_gradient(float* d_input, bool adds) const {
    for (std::size_t i = 0; i < b_.projections.size(); ++i) {
      linear_input_gradient(rows_, b_.projections[i], {projection(i), apart_}, {d_input, hidden_},
                            1, adds);
      adds = true;
    }
  }

  at::Tensor x_;
  const FeedForwardBlock b_;
  const std::int64_t hidden_, rows_, inner_, num_inner_, apart_;
  KeptBlock kept_, only_input_, gradients_;
  float *projected_ = nullptr, *activated_ = nullptr, *normed_ = nullptr;  // in kept_
  float *before_ = nullptr, *result_ = nullptr, *behind_ = nullptr;        // in only_input_
  float *d_before_ = nullptr, *d_behind_ = nullptr, *d_result_ = nullptr;  // in gradients_
};

}  // namespace

at::Tensor feed_forward_block(const at::Tensor& x_BLD, const FeedForwardBlock& block) {
  return run_node<FeedForwardNode>(x_BLD, block);
}

}  // namespace sluice::ops
