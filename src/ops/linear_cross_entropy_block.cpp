#include "ops/linear_cross_entropy_block.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "layer/call_place.h"
#include "ops/block_parts.h"
#include "ops/kernels/kernels.h"
#include "ops/parallel_rows.h"
#include "ops/slices.h"
#include "parallel/tree_exchange.h"
#include "plan/slices.h"

namespace sluice::ops {
namespace {

class LinearCrossEntropyNode final : public SplitNode {
 public:
  LinearCrossEntropyNode(const at::Tensor& x, LinearCrossEntropy loss, at::Tensor labels_R,
                         bool wants_input, bool wants_weight)
      : x_(gathered_rows(x, loss.slices)),
        loss_(std::move(loss)),
        labels_(std::move(labels_R)),
        in_(loss_.linear.in()),
        sizes_(x_.sizes().vec()),
        rows_(x_.numel() / in_),
        keeps_logits_(loss_.block == 0 && (wants_input || wants_weight)),
        makes_dx_(loss_.block > 0 && wants_input),
        top_(static_cast<std::size_t>(rows_), kNoLogit),
        total_(static_cast<std::size_t>(rows_)) {
    if (divides_rows(loss_.slices)) require_even_rows(x_, x.size(1) * loss_.slices.degree());
    const SliceRange own = loss_.slices.slices();
    std::int64_t first = 0;
    if (own.count == 1) slices_.push_back({0, loss_.linear.out(), 0});
    for (int slice = own.begin; own.count > 1 && slice < own.end; ++slice) {
      const detail::Cut cut = detail::cut_of(loss_.classes, {slice, slice + 1, own.count});
      slices_.push_back({first, cut.size(), cut.begin});
      first += cut.size();
    }
  }

  std::string name() const override { return "LinearCrossEntropyBlock"; }
  std::vector<at::Tensor> weights() const { return {loss_.linear.weight}; }

  at::Tensor forward() {
    std::vector<Statistics> all(slices_.size());
    for (std::size_t i = 0; i < slices_.size(); ++i) all[i] = pass(slices_[i]);
    if (is_sliced(loss_.slices)) {
      put_together(all);
    } else {
      top_ = std::move(all[0].top), total_ = std::move(all[0].total);
    }
    if (makes_dx_) finish_input_gradient(all);
    if (keeps_logits_) keep_factors(all);
    share_backward(loss_.slices);
    return at::scalar_tensor(sum(all[0].chosen), x_.options());
  }
  void forget_input() { x_.reset(); }

 protected:
  Work<at::Tensor> input_half(const at::Tensor& gradient, bool wanted) override {
    const auto scale = gradient.item<float>();
    if (keeps_logits_) finish_logits(scale);
    if (!wanted) return ready({});
    if (keeps_logits_) return start_summed_rows(gradient_of_input(), in_backward());
    // Scale after the sum over ranks, so that bits do not depend on their number.
    return start_summed_rows(std::exchange(dx_, {}), in_backward())
        .then([in = in_, scale](const at::Tensor& sum) {
          auto* dx = sum.mutable_data_ptr<float>();
          for_rows(sum.numel() / in, [&](std::int64_t begin, std::int64_t end) {
            scale_all((end - begin) * in, scale, dx + begin * in);
          });
          return sum;
        });
  }

  void weight_half(const at::Tensor& gradient, WeightGradients& gradients) override {
    if (!gradients.wants(0)) return;
    const WeightGradients::Target target = gradients.begin(0);
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      add_weight_gradient(rows_, loss_.linear, part_of(slices_[i]), loss_.slices, logits(i), x(), 1,
                          target);
    }
    if (keeps_logits_) return;
    const auto scale = gradient.item<float>();
    for (const Slice& slice : slices_) {
      for_blocks(slice, [&](const LinearPart& part, float* logits) {
        for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
          kernels().loss_block_gradient(
              block_of(slice, part, logits, begin, end, top_.data(), total_.data()), scale);
        });
        add_weight_gradient(rows_, loss_.linear, part, loss_.slices, {logits, part.size}, x(), 1,
                            target);
      });
    }
  }

  void free_input_half() override { dx_.reset(); }
  void free_all() override {
    for (at::Tensor* tensor : {&x_, &dx_, &labels_}) tensor->reset();
    logits_.clear();
  }

 private:
  // A slice's classes. `first`: index among this rank's classes. `of_all`: index among all classes.
  struct Slice {
    std::int64_t first, size, of_all;
  };
  // Per row: `top` is the largest logit, `total` the sum of e^(logit - top), and `chosen` the
  // label's logit, or 0 if another slice has the label.
  struct Statistics {
    std::vector<float> top, chosen;
    std::vector<double> total;
    // Gradient of x before division by `total`, without the label's term. Unused with a single
    // slice.
    KeptBlock dx;
  };

  ConstRows x() const { return {x_.const_data_ptr<float>(), in_}; }

  ConstRows logits(std::size_t slice) const {
    return {logits_[slice].const_data_ptr<float>(), slices_[slice].size};
  }
  LinearPart part_of(const Slice& slice) const {
    return {.first = slice.first, .size = slice.size, .length = loss_.classes};
  }

  // Computes logits by blocks of classes and calls run(part, logits) for each. Returns the logits'
  // memory.
  template <typename Run>
  at::Tensor for_blocks(const Slice& slice, const Run& run) const {
    const std::int64_t largest = loss_.block == 0 ? slice.size : std::min(loss_.block, slice.size);
    at::Tensor logits = at::empty({rows_, largest}, x_.options());
    auto* data = logits.mutable_data_ptr<float>();
    for (std::int64_t first = 0; first < slice.size; first += largest) {
      const LinearPart part{.first = slice.first + first,
                            .size = std::min(largest, slice.size - first),
                            .length = loss_.classes};
      linear(rows_, weights_of(loss_.linear, part), x(), {data, part.size});
      run(part, data);
    }
    return logits;
  }

  Statistics pass(const Slice& slice) {
    const auto rows = static_cast<std::size_t>(rows_);
    Statistics found{.top = std::vector<float>(rows, kNoLogit),
                     .chosen = std::vector<float>(rows),
                     .total = std::vector<double>(rows)};
    std::vector<float> rescale(rows);
    float* dx = nullptr;
    if (makes_dx_) {
      if (slices_.size() == 1) {
        dx_ = at::empty_like(x_);
        dx = dx_.mutable_data_ptr<float>();
      } else {
        found.dx = take_memory(rows_ * in_);
        dx = found.dx.data();
      }
    }
    at::Tensor logits = for_blocks(slice, [&](const LinearPart& part, float* block_logits) {
      for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
        LossBlock block =
            block_of(slice, part, block_logits, begin, end, found.top.data(), found.total.data());
        block.chosen = found.chosen.data() + begin;
        kernels().loss_block(block, rescale.data() + begin);
      });
      if (!makes_dx_) return;
      const bool is_first = part.first == slice.first;
      if (!is_first) rescale_rows(rescale, dx);
      linear_input_gradient(rows_, weights_of(loss_.linear, part), {block_logits, part.size},
                            {dx, in_}, 1, !is_first);
    });
    if (keeps_logits_) logits_.push_back(std::move(logits));
    return found;
  }

  LossBlock block_of(const Slice& slice, const LinearPart& part, float* logits, std::int64_t begin,
                     std::int64_t end, float* top, double* total) const {
    return {.rows = end - begin,
            .columns = part.size,
            .logits = logits + begin * part.size,
            .first = slice.of_all + part.first - slice.first,
            .labels = labels_.const_data_ptr<std::int64_t>() + begin,
            .scale = loss_.scale,
            .cap = loss_.cap,
            .top = top + begin,
            .total = total + begin};
  }

  // Combines all slices' statistics in top_, total_ and all[0].chosen.
  void put_together(std::vector<Statistics>& all) {
    const auto rows = static_cast<std::size_t>(rows_);
    at::Tensor largest = at::empty({rows_}, x_.options());
    auto* top = largest.mutable_data_ptr<float>();
    std::copy(all[0].top.begin(), all[0].top.end(), top);
    for (const Statistics& of_slice : all)
      for (std::size_t r = 0; r < rows; ++r) top[r] = std::max(top[r], of_slice.top[r]);
    largest = detail::all_reduce_max(largest, loss_.slices);
    top_.assign(largest.const_data_ptr<float>(), largest.const_data_ptr<float>() + rows_);
    std::vector<at::Tensor> sums;
    for (const Statistics& of_slice : all) {
      at::Tensor numbers = at::empty({2, rows_}, x_.options().dtype(at::kDouble));
      auto* total = numbers.mutable_data_ptr<double>();
      for (std::size_t r = 0; r < rows; ++r) {
        total[r] = of_slice.total[r] *
                   std::exp(static_cast<double>(of_slice.top[r]) - static_cast<double>(top_[r]));
        total[rows + r] = static_cast<double>(of_slice.chosen[r]);
      }
      sums.push_back(numbers);
    }
    const at::Tensor sum = detail::tree_all_reduce(detail::tree_sum(sums), loss_.slices);
    const auto* total = sum.const_data_ptr<double>();
    total_.assign(total, total + rows);
    for (std::size_t r = 0; r < rows; ++r) all[0].chosen[r] = static_cast<float>(total[rows + r]);
  }

  void rescale_rows(const std::vector<float>& rescale, float* dx) const {
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        scale_all(in_, rescale[static_cast<std::size_t>(row)], dx + row * in_);
    });
  }

  // On entry, each slice's dx is the sum of e^(z - top) * slope * weights. Dividing by the total
  // yields probabilities, from which the label's weights are subtracted. On return, dx_ is the sum
  // over this rank's slices.
  void finish_input_gradient(const std::vector<Statistics>& all) {
    const std::vector<float>& chosen = all[0].chosen;
    if (slices_.size() == 1)
      return finish(slices_[0], all[0], chosen, dx_.mutable_data_ptr<float>());
    dx_ = at::empty_like(x_);
    sum_slices(0, static_cast<std::int64_t>(slices_.size()), rows_ * in_,
               dx_.mutable_data_ptr<float>(), [&](std::int64_t i, float* to) {
                 const auto slice = static_cast<std::size_t>(i);
                 std::copy_n(all[slice].dx.data(), rows_ * in_, to);
                 finish(slices_[slice], all[slice], chosen, to);
               });
  }

  void finish(const Slice& slice, const Statistics& of_slice, const std::vector<float>& chosen,
              float* dx) const {
    const auto* weight = loss_.linear.weight.const_data_ptr<float>();
    for_counted_rows(slice, [&](std::int64_t row, std::int64_t label) {
      const auto r = static_cast<std::size_t>(row);
      scale_all(in_, factor(of_slice, r), dx + row * in_);
      if (label < 0) return;
      kernels().add_scaled(in_, -slope(chosen[r]), weight + (slice.first + label) * in_,
                           dx + row * in_);
    });
  }

  // Calls run(row, label) for rows that have a label. `label` is relative to the slice, or -1 if
  // another slice has it.
  template <typename Run>
  void for_counted_rows(const Slice& slice, const Run& run) const {
    const auto* labels = labels_.const_data_ptr<std::int64_t>();
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        if (labels[row] < 0) continue;
        const std::int64_t label = labels[row] - slice.of_all;
        run(row, label < slice.size ? std::max<std::int64_t>(label, -1) : -1);
      }
    });
  }

  // Returns the factor that turns a row's exponentials into gradients.
  float factor(const Statistics& of_slice, std::size_t row) const {
    double factor = static_cast<double>(loss_.scale) / total_[row];
    if (is_sliced(loss_.slices)) {
      factor *= std::exp(static_cast<double>(of_slice.top[row]) - static_cast<double>(top_[row]));
    }
    return static_cast<float>(factor);
  }
  // Returns the derivative of scaling and capping at the capped logit `chosen`.
  float slope(float chosen) const {
    const float x = loss_.cap > 0 ? chosen / loss_.cap : 0;
    return loss_.scale * (1 - x * x);
  }

  void keep_factors(const std::vector<Statistics>& all) {
    for (const Statistics& of_slice : all) {
      std::vector<float>& factors = factors_.emplace_back(static_cast<std::size_t>(rows_));
      for (std::size_t row = 0; row < factors.size(); ++row) factors[row] = factor(of_slice, row);
    }
    for (const float chosen : all[0].chosen) slopes_.push_back(slope(chosen));
  }

  void finish_logits(float scale) {
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      auto* logits = logits_[i].mutable_data_ptr<float>();
      for_counted_rows(slices_[i], [&](std::int64_t row, std::int64_t label) {
        const auto r = static_cast<std::size_t>(row);
        float* of_row = logits + row * slices_[i].size;
        scale_all(slices_[i].size, scale * factors_[i][r], of_row);
        if (label >= 0) of_row[label] -= scale * slopes_[r];
      });
    }
  }

  at::Tensor gradient_of_input() const {
    at::Tensor dx = at::empty(sizes_, at::kFloat);
    sum_slices(0, static_cast<std::int64_t>(slices_.size()), rows_ * in_,
               dx.mutable_data_ptr<float>(), [&](std::int64_t i, float* to) {
                 const auto slice = static_cast<std::size_t>(i);
                 linear_input_gradient(rows_, weights_of(loss_.linear, part_of(slices_[slice])),
                                       logits(slice), {to, in_});
               });
    return dx;
  }

  double sum(const std::vector<float>& chosen) const {
    const auto* labels = labels_.const_data_ptr<std::int64_t>();
    double loss = 0;
    for (std::int64_t row = 0; row < rows_; ++row) {
      const auto r = static_cast<std::size_t>(row);
      if (labels[row] < 0) continue;
      loss += std::log(total_[r]) + static_cast<double>(top_[r]) - static_cast<double>(chosen[r]);
    }
    return loss;
  }

  at::Tensor x_;  // with the rows of all ranks
  const LinearCrossEntropy loss_;
  at::Tensor labels_;
  const std::int64_t in_;
  const std::vector<std::int64_t> sizes_;
  const std::int64_t rows_;
  const bool keeps_logits_, makes_dx_;
  std::vector<Slice> slices_;
  std::vector<at::Tensor> logits_;  // per slice: exponentials, then the logits' gradient
  std::vector<std::vector<float>> factors_;
  std::vector<float> slopes_;  // slope() of each label's logit
  at::Tensor dx_;              // gradient of x, not yet scaled
  std::vector<float> top_;
  std::vector<double> total_;
};

}  // namespace

at::Tensor linear_cross_entropy_block(const at::Tensor& x, const LinearCrossEntropy& loss,
                                      const at::Tensor& labels_R) {
  const at::Tensor input = x.contiguous();
  const at::Tensor& weight = loss.linear.weight;
  require_contiguous("LinearCrossEntropyBlock", weight);
  const bool wants_input = SplitNode::wants_gradients(input, {}),
             wants_weight = SplitNode::wants_gradients({}, {weight});
  const detail::WeightPlace place(weight);
  const NodePtr pointer = make_node<LinearCrossEntropyNode>(
      input.detach(), loss, labels_R.contiguous(), wants_input, wants_weight);
  auto& node = static_cast<LinearCrossEntropyNode&>(*pointer);
  at::Tensor sum;
  {
    const at::NoGradGuard no_graph;
    sum = node.forward();
  }
  if (!wants_weight) node.forget_input();
  if (wants_input || wants_weight) node.connect(input, {weight}, sum);
  return sum;
}

}  // namespace sluice::ops
