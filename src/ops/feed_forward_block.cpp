#include "ops/feed_forward_block.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstring>
#include <utility>

#include "layer/call_place.h"
#include "ops/block_parts.h"
#include "ops/kept_memory.h"
#include "ops/parallel_rows.h"
#include "ops/slices.h"
#include "plan/slices.h"

namespace sluice::ops {
namespace {

class FeedForwardNode final : public SplitNode {
 public:
  FeedForwardNode(const at::Tensor& x_BLD, FeedForwardBlock block)
      : x_(x_BLD),
        b_(std::move(block)),
        hidden_(x_BLD.size(-1)),
        own_size_(x_BLD.numel()),
        rows_(own_size_ / hidden_ * (divides_rows(b_.slices) ? b_.slices.degree() : 1)),
        inner_(b_.down.in()),
        num_inner_(b_.is_gated ? 2 : 1),
        is_one_matrix_(b_.projections.size() == 1 && b_.is_gated && !is_sliced(b_.slices)),
        blocks_(row_blocks(x_BLD, b_.slices)) {
    const SliceRange own = b_.slices.slices();
    std::int64_t first = 0;
    for (int slice = own.begin; slice < own.end; ++slice) {
      const std::int64_t size =
          own.count == 1 ? inner_ : detail::cut_of(b_.width, {slice, slice + 1, own.count}).size();
      slices_.push_back({first, size, floats_});
      first += size;
      floats_ += matrix_floats(size);
    }
  }

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
    enter(x);
    for (const Slice& slice : slices_) {
      for (std::size_t i = 0; i < num_products(); ++i) {
        linear(rows_, weights_of(projection(i), outputs(slice, i)), {input(), hidden_},
               {projected(slice, i), apart(slice)});
      }
      activate(slice);
    }
    if (is_sliced(b_.slices)) return leave(x);
    at::Tensor y_BLD = at::empty_like(x_);
    auto* y = y_BLD.mutable_data_ptr<float>();
    const ConstRows inner{activated_, inner_};
    if (b_.behind.is_there()) {
      linear(rows_, b_.down, inner, {result_, hidden_});
      add_normed_result(x, y);
    } else {
      add_result(rows_, b_.down, inner, b_.adds_input ? x : nullptr, b_.residual_scale, y);
    }
    return y_BLD;
  }

 protected:
  at::Tensor input_half(const at::Tensor& gradient, bool wanted) override {
    const auto* dy = gradient.const_data_ptr<float>();
    const auto floats = [](const NormWeights& norm) {
      return norm.is_there() ? norm.weight_floats() : 0;
    };
    const std::int64_t of_result = b_.behind.is_there() && !is_sliced(b_.slices) ? own_size_ : 0;
    gradients_ = take_memory(of_result + floats(b_.before) + floats(b_.behind));
    Floats all(gradients_.data());
    d_before_ = all.take(floats(b_.before));
    d_behind_ = all.take(floats(b_.behind));
    d_result_ = all.take(of_result);
    const bool has_behind = b_.behind.is_there();
    const float* d_result = dy;
    if (is_sliced(b_.slices)) {
      const at::Tensor of_own_rows = has_behind ? at::empty_like(gradient) : gradient;
      if (has_behind) through_behind(dy, of_own_rows.mutable_data_ptr<float>());
      of_all_rows_ = gathered_rows(of_own_rows, in_backward_);
      d_result = of_all_rows_.const_data_ptr<float>();
    } else if (has_behind) {
      through_behind(dy, d_result_);
      d_result = d_result_;
    }
    const float scale = has_behind ? 1 : b_.residual_scale;
    for (const Slice& slice : slices_) {
      const KeptBlock d_activated = take_memory(rows_ * slice.size);
      linear_input_gradient(rows_, weights_of(b_.down, inputs(slice)), {d_result, hidden_},
                            {d_activated.data(), slice.size}, scale);
      activate_gradient(slice, d_activated.data());
    }
    const bool trains_before = is_weight(kBefore) || is_weight(kBefore + 1);
    at::Tensor dx;
    if (wanted || trains_before) dx = gradient_of_input(dy);
    if (divides_rows(b_.slices)) {  // weights that all rows share
      float* first = dx.defined() ? d_before_ : d_behind_;
      sum_over_ranks(first, d_result_ - first, in_backward_);
    }
    return dx;
  }

  void weight_half(const at::Tensor& gradient, WeightGradients& gradients) override {
    const bool has_behind = b_.behind.is_there();
    const float* d_result = of_all_rows_.defined() ? of_all_rows_.const_data_ptr<float>()
                            : has_behind           ? d_result_
                                                   : gradient.const_data_ptr<float>();
    if (gradients.wants(kDown)) {
      const WeightGradients::Target target = gradients.begin(kDown);
      for (const Slice& slice : slices_) {
        add_weight_gradient(rows_, b_.down, inputs(slice), b_.slices, {d_result, hidden_},
                            {activated(slice), slice.size}, has_behind ? 1 : b_.residual_scale,
                            target);
      }
    }
    if (gradients.wants(kDown + 1)) {
      const at::Tensor& all = of_all_rows_.defined() ? of_all_rows_ : gradient;
      give_shared_bias(row_blocks(all, b_.slices, /*is_whole=*/true), hidden_, d_result, kDown + 1,
                       gradients);
    }
    for (std::size_t i = 0; i < b_.projections.size(); ++i) give_projection(i, gradients);
    give_norm(b_.before, kBefore, d_before_, gradients);
    give_norm(b_.behind, kBehind, d_behind_, gradients);
  }

  void free_input_half() override {
    only_input_.reset();
    summed_.reset();
    if (b_.before.is_there() || entered_.defined()) x_.reset();  // else the weights' half reads it
  }
  void free_all() override {
    for (KeptBlock* memory : {&kept_, &only_input_, &gradients_}) memory->reset();
    for (at::Tensor* tensor : {&x_, &entered_, &of_all_rows_, &summed_}) tensor->reset();
  }

 private:
  // Places in weights().
  static constexpr std::size_t kBefore = 0, kBehind = 2, kDown = 4, kProjections = 6;

  // Columns of the inner layer, among those of this rank.
  struct Slice {
    std::int64_t first, size;
    std::int64_t at;  // of its matrices, among one of each slice
  };
  // Each matrix of a slice begins as memory of its own does.
  std::int64_t matrix_floats(std::int64_t width) const {
    return is_sliced(b_.slices) ? aligned_floats(rows_ * width) : rows_ * width;
  }

  void take_forward_memory() {
    const std::int64_t own_rows = own_size_ / hidden_;
    const bool has_before = b_.before.is_there(), has_behind = b_.behind.is_there();
    const bool keeps_normed = has_before && !is_sliced(b_.slices),
               keeps_result = has_behind && !is_sliced(b_.slices);
    kept_ = take_memory((num_inner_ + 1) * floats_ + (keeps_normed ? own_size_ : 0));
    Floats kept(kept_.data());
    projected_ = kept.take(num_inner_ * floats_);
    activated_ = kept.take(floats_);
    if (keeps_normed) normed_ = kept.take(own_size_);
    only_input_ =
        take_memory(own_rows * ((has_before ? kNormFloats : 0) + (has_behind ? kNormFloats : 0) +
                                (keeps_result ? hidden_ : 0)));
    Floats only(only_input_.data());
    if (has_before) before_ = only.take(own_rows * kNormFloats);
    if (keeps_result) result_ = only.take(own_rows * hidden_);
    if (has_behind) behind_ = only.take(own_rows * kNormFloats);
  }

  // The projections' input, all rows.
  const float* input() const {
    if (entered_.defined()) return entered_.const_data_ptr<float>();
    return b_.before.is_there() ? normed_ : x_.const_data_ptr<float>();
  }

  // Products in front of the activation. Gate and up of one weight are one product, where no slice
  // lies between their columns.
  std::size_t num_products() const {
    return is_one_matrix_ ? 1 : static_cast<std::size_t>(num_inner_);
  }
  const LinearWeights& projection(std::size_t i) const {
    return b_.projections[b_.projections.size() == 1 ? 0 : i];
  }
  LinearPart outputs(const Slice& slice, std::size_t i) const {
    if (is_one_matrix_) return {.first = 0, .size = num_inner_ * inner_};
    const std::int64_t before =
        b_.projections.size() == 1 ? static_cast<std::int64_t>(i) * inner_ : 0;
    return {.first = before + slice.first, .size = slice.size, .length = b_.width};
  }
  LinearPart inputs(const Slice& slice) const {
    return {.of_inputs = true, .first = slice.first, .size = slice.size, .length = b_.width};
  }
  std::int64_t apart(const Slice& slice) const {
    return is_one_matrix_ ? num_inner_ * inner_ : slice.size;
  }

  // Results of product i, and later their gradients. Gate and up each fill a matrix of their
  // own where they are two products: both of one half would leave the cache sooner.
  float* projected(const Slice& slice, std::size_t i) const {
    return projected_ + num_inner_ * slice.at +
           static_cast<std::int64_t>(i) * matrix_floats(slice.size);
  }
  float* up(const Slice& slice) const {
    return is_one_matrix_ ? projected_ + inner_ : projected(slice, 1);
  }
  float* activated(const Slice& slice) const { return activated_ + slice.at; }

  // The norm of the rows of this rank, and those of the others.
  void enter(const float* x) {
    const bool has_before = b_.before.is_there();
    if (!is_sliced(b_.slices)) {
      if (has_before) norm_blocks(b_.before, blocks_, x, normed_, before_);
      return;
    }
    at::Tensor own = has_before ? at::empty_like(x_) : x_;
    if (has_before) norm_blocks(b_.before, blocks_, x, own.mutable_data_ptr<float>(), before_);
    const detail::WeightPlace place(projection(0).weight);
    entered_ = gathered_rows(own, b_.slices);
    if (divides_rows(b_.slices)) require_even_rows(entered_, x_.size(1) * b_.slices.degree());
  }

  void activate(const Slice& slice) const {
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      float* to = activated(slice) + begin * slice.size;
      const float* from = projected(slice, 0) + begin * apart(slice);
      if (b_.is_gated) {
        kernels().gated(b_.activation, end - begin, slice.size, from,
                        up(slice) + begin * apart(slice), apart(slice), to);
      } else {
        kernels().activation(b_.activation, (end - begin) * slice.size, from, to);
      }
    });
  }

  void activate_gradient(const Slice& slice, const float* d_activated) const {
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      const float* from = d_activated + begin * slice.size;
      float* to = projected(slice, 0) + begin * apart(slice);
      if (b_.is_gated) {
        kernels().gated_gradient(b_.activation, end - begin, slice.size, to,
                                 up(slice) + begin * apart(slice), apart(slice), from);
      } else {
        kernels().activation_gradient(b_.activation, (end - begin) * slice.size, to, from);
      }
    });
  }

  // The gradient in front of the norm behind, and that of what it adds to.
  void through_behind(const float* dy, float* d_result) const {
    norm_gradient_blocks(b_.behind, blocks_, dy, result_, behind_, nullptr, d_result, d_behind_);
    scale_all(own_size_, b_.residual_scale, d_result);
    scale_all(b_.behind.weight_floats(), b_.residual_scale, d_behind_);
  }

  void add_normed_result(const float* x, float* y) {
    norm_blocks(b_.behind, blocks_, result_, y, behind_);
    if (b_.adds_input) kernels().sum_scaled(own_size_, x, b_.residual_scale, y, y);
  }

  // The sum over all slices, and what is done once behind it.
  at::Tensor leave(const float* x) {
    at::Tensor sum_BLD = rows_of_all();
    sum_slices(0, num_slices(), rows_ * hidden_, sum_BLD.mutable_data_ptr<float>(),
               [&](std::int64_t i, float* to) {
                 const Slice& slice = slices_[static_cast<std::size_t>(i)];
                 linear(rows_, weights_of(b_.down, inputs(slice)), {activated(slice), slice.size},
                        {to, hidden_});
               });
    const detail::WeightPlace place(b_.down.weight);
    at::Tensor y_BLD = summed_rows(std::exchange(sum_BLD, {}), b_.slices);
    in_backward_ = b_.slices.of_call(detail::numbered_place());
    auto* y = y_BLD.mutable_data_ptr<float>();
    if (b_.down.bias.defined()) {
      kernels().add_bias(own_size_ / hidden_, hidden_, b_.down.bias.const_data_ptr<float>(), y,
                         hidden_);
    }
    if (b_.behind.is_there()) {
      summed_ = std::exchange(y_BLD, at::empty_like(x_));
      result_ = y;
      add_normed_result(x, y_BLD.mutable_data_ptr<float>());
    } else {
      add_sum(own_size_, b_.adds_input ? x : nullptr, b_.residual_scale, y);
    }
    return y_BLD;
  }

  std::int64_t num_slices() const { return static_cast<std::int64_t>(slices_.size()); }
  at::Tensor rows_of_all() const {
    return at::empty({x_.size(0), rows_ / x_.size(0), hidden_}, x_.options());
  }

  at::Tensor gradient_of_input(const float* dy) const {
    if (is_sliced(b_.slices)) return summed_gradient_of_input(dy);
    at::Tensor dx_BLD = at::empty_like(x_);
    auto* dx = dx_BLD.mutable_data_ptr<float>();
    if (b_.before.is_there()) {
      const KeptBlock d_normed = take_memory(own_size_);
      project_gradient(slices_[0], d_normed.data(), /*adds=*/false);
      norm_gradient_blocks(b_.before, blocks_, d_normed.data(), x_.const_data_ptr<float>(), before_,
                           b_.adds_input ? dy : nullptr, dx, d_before_);
    } else {
      if (b_.adds_input) std::memcpy(dx, dy, static_cast<std::size_t>(own_size_) * sizeof(float));
      project_gradient(slices_[0], dx, b_.adds_input);
    }
    return dx_BLD;
  }

  at::Tensor summed_gradient_of_input(const float* dy) const {
    at::Tensor sum_BLD = rows_of_all();
    sum_slices(0, num_slices(), rows_ * hidden_, sum_BLD.mutable_data_ptr<float>(),
               [&](std::int64_t slice, float* to) {
                 project_gradient(slices_[static_cast<std::size_t>(slice)], to, /*adds=*/false);
               });
    at::Tensor dx_BLD = summed_rows(std::exchange(sum_BLD, {}), in_backward_);
    auto* dx = dx_BLD.mutable_data_ptr<float>();
    if (b_.before.is_there()) {
      norm_gradient_blocks(b_.before, blocks_, dx, x_.const_data_ptr<float>(), before_,
                           b_.adds_input ? dy : nullptr, dx, d_before_);
    } else if (b_.adds_input) {
      kernels().add_scaled(own_size_, 1, dy, dx);
    }
    return dx_BLD;
  }

  void project_gradient(const Slice& slice, float* d_input, bool adds) const {
    for (std::size_t i = 0; i < num_products(); ++i) {
      linear_input_gradient(rows_, weights_of(projection(i), outputs(slice, i)),
                            {projected(slice, i), apart(slice)}, {d_input, hidden_}, 1, adds);
      adds = true;
    }
  }

  // Gradients of weight and bias of projection `of`, which has the columns of all products where it
  // is one.
  void give_projection(std::size_t of, WeightGradients& gradients) const {
    const std::size_t index = kProjections + 2 * of;
    for (const std::size_t weight : {index, index + 1}) {
      if (!gradients.wants(weight)) continue;
      const WeightGradients::Target target = gradients.begin(weight);
      for (const Slice& slice : slices_) {
        for (std::size_t i = 0; i < num_products(); ++i) {
          if (b_.projections.size() > 1 && i != of) continue;
          const ConstRows dy{projected(slice, i), apart(slice)};
          if (weight == index) {
            add_weight_gradient(rows_, b_.projections[of], outputs(slice, i), b_.slices, dy,
                                {input(), hidden_}, 1, target);
          } else {
            add_bias_gradient(rows_, outputs(slice, i), dy, target);
          }
        }
      }
    }
  }

  at::Tensor x_;
  const FeedForwardBlock b_;
  SliceGroup in_backward_;  // for the calls of the backward; of one slice without a place
  const std::int64_t hidden_, own_size_, rows_, inner_, num_inner_;  // own_size_: of x
  const bool is_one_matrix_;
  const std::vector<RowBlock> blocks_;  // of x
  std::vector<Slice> slices_;
  std::int64_t floats_ = 0;  // of a matrix of each slice
  // Rows of all ranks: the input of the projections, the gradient behind their sum.
  at::Tensor entered_, of_all_rows_;
  at::Tensor summed_;  // in front of the norm behind
  KeptBlock kept_, only_input_, gradients_;
  float *projected_ = nullptr, *activated_ = nullptr, *normed_ = nullptr;  // in kept_
  float *before_ = nullptr, *behind_ = nullptr;                            // in only_input_
  float* result_ = nullptr;                                                // there, or in summed_
  float *d_before_ = nullptr, *d_behind_ = nullptr, *d_result_ = nullptr;  // in gradients_
};

}  // namespace

at::Tensor feed_forward_block(const at::Tensor& x_BLD, const FeedForwardBlock& block) {
  return run_node<FeedForwardNode>(x_BLD, block);
}

}  // namespace sluice::ops
