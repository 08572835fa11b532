#include "ops/half_block.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstring>
#include <utility>

#include "layer/call_place.h"
#include "ops/kernels/kernels.h"

namespace sluice::ops {
namespace {

std::int64_t floats_of(const NormWeights& norm) {
  return norm.is_there() ? norm.weight_floats() : 0;
}

}  // namespace

HalfBlockNode::HalfBlockNode(const at::Tensor& x_BLD, HalfBlock half)
    : x_(x_BLD),
      half_(std::move(half)),
      sliced_(is_sliced(half_.slices)),
      own_(half_.slices.slices().size()),
      hidden_(x_BLD.size(-1)),
      own_size_(x_BLD.numel()),
      rows_(own_size_ / hidden_ * (divides_rows(half_.slices) ? half_.slices.degree() : 1)),
      blocks_(row_blocks(x_BLD, half_.slices)) {}

std::vector<at::Tensor> HalfBlockNode::weights() const {
  std::vector<at::Tensor> all{half_.before.weight, half_.before.bias, half_.behind.weight,
                              half_.behind.bias,   half_.last.weight, half_.last.bias};
  for (const LinearWeights& projection : half_.projections) {
    all.push_back(projection.weight);
    all.push_back(projection.bias);
  }
  for (const at::Tensor& weight : weights_inside()) all.push_back(weight);
  return all;
}

void HalfBlockNode::free_input_half() {
  only_input_.reset();
  summed_.reset();
  // Without a norm and gathered rows, x_ is the projections' input, which weight_half() still
  // needs.
  if (half_.before.is_there() || entered_.defined()) x_.reset();
}

void HalfBlockNode::free_all() {
  for (KeptBlock* memory : {&kept_, &only_input_, &gradients_}) memory->reset();
  for (at::Tensor* tensor : {&x_, &entered_, &of_all_rows_, &summed_}) tensor->reset();
}

void HalfBlockNode::place_kept(Floats& kept) {
  if (keeps_normed()) normed_ = kept.take(rows_ * hidden_);
}

std::int64_t HalfBlockNode::input_floats() const {
  const std::int64_t norms = half_.before.is_there() + half_.behind.is_there();
  return own_size_ / hidden_ * norms * kNormFloats + result_floats();
}

void HalfBlockNode::place_input(Floats& only) {
  const std::int64_t statistics = own_size_ / hidden_ * kNormFloats;
  if (half_.before.is_there()) before_ = only.take(statistics);
  if (result_floats() > 0) result_ = only.take(result_floats());
  if (half_.behind.is_there()) behind_ = only.take(statistics);
}

std::int64_t HalfBlockNode::sum_floats() const {
  return floats_of(half_.before) + floats_of(half_.behind);
}

void HalfBlockNode::place_sums(Floats& all, std::int64_t inside) {
  d_before_ = all.take(floats_of(half_.before));
  d_behind_ = all.take(floats_of(half_.behind));
  d_inside_ = all.take(inside);
  d_end_ = all.take(0);
}

at::Tensor HalfBlockNode::forward() {
  take_forward_memory();
  const float* x = x_.const_data_ptr<float>();
  enter(x);
  for (std::int64_t slice = 0; slice < own_; ++slice) {
    for (const WeightedProduct& product : weighted_products(slice))
      linear(rows_, product.weights, {input(), hidden_}, product.y);
    run(slice);
  }
  if (sliced_) return leave(x);
  at::Tensor y_BLD = at::empty_like(x_);
  auto* y = y_BLD.mutable_data_ptr<float>();
  if (half_.behind.is_there()) {
    linear(rows_, half_.last, inner(0), {result_, hidden_});
    add_normed_result(x, y);
  } else {
    add_result(rows_, half_.last, inner(0), half_.adds_input ? x : nullptr, half_.residual_scale,
               y);
  }
  return y_BLD;
}

std::vector<HalfBlockNode::WeightedProduct> HalfBlockNode::weighted_products(
    std::int64_t slice) const {
  const std::vector<Product> single = products(slice);
  std::vector<WeightedProduct> all;
  for (std::size_t i = 0; i < single.size();) {
    const Product& first = single[i];
    const LinearWeights& own = half_.projections[first.projection];
    std::vector<LinearPart> parts{first.part};
    for (++i; own.is_transposed && i < single.size() && single[i].projection == first.projection;
         ++i) {
      parts.push_back(single[i].part);
    }
    all.push_back({parts.size() == 1 ? weights_of(own, first.part) : weights_of(own, parts),
                   first.y, first.dy});
  }
  return all;
}

// Returns the input of the projections, with the rows of all ranks.
const float* HalfBlockNode::input() const {
  if (entered_.defined()) return entered_.const_data_ptr<float>();
  return half_.before.is_there() ? normed_ : x_.const_data_ptr<float>();
}

void HalfBlockNode::enter(const float* x) {
  const bool has_before = half_.before.is_there();
  if (!sliced_) {
    if (has_before) norm_blocks(half_.before, blocks_, x, normed_, before_);
    return;
  }
  at::Tensor own = has_before ? at::empty_like(x_) : x_;
  if (has_before) norm_blocks(half_.before, blocks_, x, own.mutable_data_ptr<float>(), before_);
  const detail::WeightPlace place(half_.projections.front().weight);
  entered_ = gathered_rows(own, half_.slices);
  if (divides_rows(half_.slices)) require_even_rows(entered_, rows_ / x_.size(0));
}

// Sums the last layer over slices and ranks, then adds bias, norm and residual.
at::Tensor HalfBlockNode::leave(const float* x) {
  at::Tensor sum_BLD = at::empty({x_.size(0), rows_ / x_.size(0), hidden_}, x_.options());
  sum_slices(0, own_, rows_ * hidden_, sum_BLD.mutable_data_ptr<float>(),
             [&](std::int64_t slice, float* to) {
               linear(rows_, weights_of(half_.last, inputs(slice)), inner(slice), {to, hidden_});
             });
  const detail::WeightPlace place(half_.last.weight);
  at::Tensor y_BLD = summed_rows(std::exchange(sum_BLD, {}), half_.slices);
  share_backward(half_.slices);
  auto* y = y_BLD.mutable_data_ptr<float>();
  if (half_.last.bias.defined()) {
    kernels().add_bias(own_size_ / hidden_, hidden_, half_.last.bias.const_data_ptr<float>(), y,
                       hidden_);
  }
  if (half_.behind.is_there()) {
    summed_ = std::exchange(y_BLD, at::empty_like(x_));
    result_ = y;
    add_normed_result(x, y_BLD.mutable_data_ptr<float>());
  } else {
    add_sum(own_size_, half_.adds_input ? x : nullptr, half_.residual_scale, y);
  }
  return y_BLD;
}

void HalfBlockNode::add_normed_result(const float* x, float* y) {
  norm_blocks(half_.behind, blocks_, result_, y, behind_);
  if (half_.adds_input) kernels().sum_scaled(own_size_, x, half_.residual_scale, y, y);
}

Work<at::Tensor> HalfBlockNode::input_half(const at::Tensor& gradient, bool wanted) {
  const auto* dy = gradient.const_data_ptr<float>();
  take_backward_memory();
  const bool has_behind = half_.behind.is_there();
  const float* d_result = dy;
  if (sliced_) {
    const at::Tensor of_own_rows = has_behind ? at::empty_like(gradient) : gradient;
    if (has_behind) through_behind(dy, of_own_rows.mutable_data_ptr<float>());
    of_all_rows_ = gathered_rows(of_own_rows, in_backward());
    d_result = of_all_rows_.const_data_ptr<float>();
  } else if (has_behind) {
    through_behind(dy, d_result_);
    d_result = d_result_;
  }
  for (std::int64_t slice = 0; slice < own_; ++slice) {
    const std::int64_t width = inner(slice).stride;
    const KeptBlock d_inner = take_memory(rows_ * width);
    linear_input_gradient(rows_, weights_of(half_.last, inputs(slice)), {d_result, hidden_},
                          {d_inner.data(), width}, has_behind ? 1 : half_.residual_scale);
    run_gradient(slice, d_inner.data());
  }
  finish_gradients();
  if (!wanted && !is_weight(kBefore) && !is_weight(kBefore + 1)) {
    sum_shared_weights(/*has_before=*/false);
    return ready({});
  }
  if (!sliced_) return ready(gradient_of_input(dy));
  return start_summed_rows(gradient_of_slices(), in_backward())
      .then([this, gradient](at::Tensor dx_BLD) {
        leave_backwards(gradient, dx_BLD);
        return dx_BLD;
      });
}

void HalfBlockNode::through_behind(const float* dy, float* d_result) const {
  norm_gradient_blocks(half_.behind, blocks_, dy, result_, behind_, nullptr, d_result, d_behind_);
  scale_all(own_size_, half_.residual_scale, d_result);
  scale_all(half_.behind.weight_floats(), half_.residual_scale, d_behind_);
}

at::Tensor HalfBlockNode::gradient_of_input(const float* dy) const {
  at::Tensor dx_BLD = at::empty_like(x_);
  auto* dx = dx_BLD.mutable_data_ptr<float>();
  if (half_.before.is_there()) {
    const KeptBlock d_normed = take_memory(own_size_);
    project_gradient(0, d_normed.data(), /*adds=*/false);
    norm_gradient_blocks(half_.before, blocks_, d_normed.data(), x_.const_data_ptr<float>(),
                         before_, half_.adds_input ? dy : nullptr, dx, d_before_);
  } else {
    if (half_.adds_input) std::memcpy(dx, dy, static_cast<std::size_t>(own_size_) * sizeof(float));
    project_gradient(0, dx, half_.adds_input);
  }
  return dx_BLD;
}

at::Tensor HalfBlockNode::gradient_of_slices() const {
  at::Tensor sum_BLD = at::empty({x_.size(0), rows_ / x_.size(0), hidden_}, x_.options());
  sum_slices(0, own_, rows_ * hidden_, sum_BLD.mutable_data_ptr<float>(),
             [&](std::int64_t slice, float* to) { project_gradient(slice, to, /*adds=*/false); });
  return sum_BLD;
}

// Turns dx, the gradient of the projections' input, into the gradient of x.
void HalfBlockNode::leave_backwards(const at::Tensor& gradient, at::Tensor& dx_BLD) const {
  const auto* dy = gradient.const_data_ptr<float>();
  auto* dx = dx_BLD.mutable_data_ptr<float>();
  if (half_.before.is_there()) {
    norm_gradient_blocks(half_.before, blocks_, dx, x_.const_data_ptr<float>(), before_,
                         half_.adds_input ? dy : nullptr, dx, d_before_);
  } else if (half_.adds_input) {
    kernels().add_scaled(own_size_, 1, dy, dx);
  }
  sum_shared_weights(/*has_before=*/true);
}

void HalfBlockNode::project_gradient(std::int64_t slice, float* d_input, bool adds) const {
  for (const WeightedProduct& product : weighted_products(slice)) {
    linear_input_gradient(rows_, product.weights, product.dy, {d_input, hidden_}, 1, adds);
    adds = true;
  }
}

// Sums norm weights' gradients over ranks: for head norms always, for others only if ranks hold
// different rows. has_before: include the norm of x.
void HalfBlockNode::sum_shared_weights(bool has_before) const {
  float* first = divides_rows(half_.slices) ? (has_before ? d_before_ : d_behind_) : d_inside_;
  sum_over_ranks(first, d_end_ - first, in_backward());
}

void HalfBlockNode::weight_half(const at::Tensor& gradient, WeightGradients& gradients) {
  const bool has_behind = half_.behind.is_there();
  const at::Tensor& all_rows = of_all_rows_.defined() ? of_all_rows_ : gradient;
  const float* d_result = has_behind && !sliced_ ? d_result_ : all_rows.const_data_ptr<float>();
  if (gradients.wants(kLast)) {
    const WeightGradients::Target target = gradients.begin(kLast);
    for (std::int64_t slice = 0; slice < own_; ++slice) {
      add_weight_gradient(rows_, half_.last, inputs(slice), half_.slices, {d_result, hidden_},
                          inner(slice), has_behind ? 1 : half_.residual_scale, target);
    }
  }
  give_shared_bias(row_blocks(all_rows, half_.slices, /*is_whole=*/true), hidden_, d_result,
                   kLast + 1, gradients);
  for (std::size_t i = 0; i < half_.projections.size(); ++i) give_projection(i, gradients);
}

void HalfBlockNode::give_rest(WeightGradients& gradients) {
  give_norm(half_.before, kBefore, d_before_, gradients);
  give_norm(half_.behind, kBehind, d_behind_, gradients);
  give_inside(gradients);
}

void HalfBlockNode::give_projection(std::size_t projection, WeightGradients& gradients) const {
  const std::size_t index = kProjections + 2 * projection;
  const LinearWeights& own = half_.projections[projection];
  for (const std::size_t weight : {index, index + 1}) {
    if (!gradients.wants(weight)) continue;
    const WeightGradients::Target target = gradients.begin(weight);
    for (std::int64_t slice = 0; slice < own_; ++slice) {
      for (const Product& product : products(slice)) {
        if (product.projection != projection) continue;
        if (weight == index) {
          add_weight_gradient(rows_, own, product.part, half_.slices, product.dy,
                              {input(), hidden_}, 1, target);
        } else {
          add_bias_gradient(rows_, product.part, product.dy, target);
        }
      }
    }
  }
}

}  // namespace sluice::ops
