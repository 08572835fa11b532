#include "ops/linear_cross_entropy_block.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/block_parts.h"
#include "ops/kernels/kernels.h"
#include "ops/parallel_rows.h"

namespace sluice::ops {
namespace {

class LinearCrossEntropyNode final : public SplitNode {
 public:
  // wants_input: the gradient of x may be asked for.
  LinearCrossEntropyNode(at::Tensor x, LinearCrossEntropy loss, at::Tensor labels_R,
                         bool wants_input)
      : x_(std::move(x)),
        loss_(std::move(loss)),
        labels_(std::move(labels_R)),
        in_(loss_.linear.in()),
        classes_(loss_.linear.out()),
        rows_(x_.numel() / in_),
        wants_input_(wants_input),
        top_(static_cast<std::size_t>(rows_), kNoLogit),
        total_(static_cast<std::size_t>(rows_)) {}

  std::string name() const override { return "LinearCrossEntropyBlock"; }
  std::vector<at::Tensor> weights() const { return {loss_.linear.weight}; }

  at::Tensor forward() {
    std::vector<float> rescale(static_cast<std::size_t>(rows_)),
        chosen(static_cast<std::size_t>(rows_));
    if (wants_input_) dx_ = at::empty_like(x_);
    for_blocks([&](std::int64_t first, const LinearWeights& weights, float* logits) {
      for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
        LossBlock block = block_of(first, weights.out(), logits, begin, end);
        block.chosen = chosen.data() + begin;
        kernels().loss_block(block, rescale.data() + begin);
      });
      if (!wants_input_) return;
      if (first > 0) rescale_rows(rescale);
      linear_input_gradient(rows_, weights, {logits, weights.out()},
                            {dx_.mutable_data_ptr<float>(), in_}, 1, first > 0);
    });
    if (wants_input_) finish_input_gradient(chosen);
    return at::scalar_tensor(sum(chosen), x_.options());
  }
  // No weight's gradient will be asked for.
  void forget_input() { x_.reset(); }

 protected:
  at::Tensor input_half(const at::Tensor& gradient, bool wanted) override {
    if (!wanted) return {};
    const auto scale = gradient.item<float>();
    auto* dx = dx_.mutable_data_ptr<float>();
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      scale_all((end - begin) * in_, scale, dx + begin * in_);
    });
    return std::exchange(dx_, {});
  }

  void weight_half(const at::Tensor& gradient, WeightGradients& gradients) override {
    if (!gradients.wants(0)) return;
    const auto scale = gradient.item<float>();
    const WeightGradients::Target target = gradients.begin(0);
    for_blocks([&](std::int64_t first, const LinearWeights& weights, float* logits) {
      for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
        kernels().loss_block_gradient(block_of(first, weights.out(), logits, begin, end), scale);
      });
      linear_weight_gradient(rows_, weights, {logits, weights.out()}, x(),
                             target.data + first * in_, 1, target.adds);
    });
  }

  void free_input_half() override { dx_.reset(); }
  void free_all() override {
    x_.reset();
    dx_.reset();
    labels_.reset();
  }

 private:
  ConstRows x() const { return {x_.const_data_ptr<float>(), in_}; }

  // run(first output, its weights, logits): of every block, in order.
  template <typename Run>
  void for_blocks(const Run& run) const {
    const std::int64_t largest = std::min(loss_.block, classes_);
    at::Tensor logits = at::empty({rows_, largest}, x_.options());
    auto* data = logits.mutable_data_ptr<float>();
    for (std::int64_t first = 0; first < classes_; first += largest) {
      const std::int64_t outputs = std::min(largest, classes_ - first);
      const LinearWeights weights{loss_.linear.weight.narrow(0, first, outputs)};
      linear(rows_, weights, x(), {data, outputs});
      run(first, weights, data);
    }
  }

  LossBlock block_of(std::int64_t first, std::int64_t outputs, float* logits, std::int64_t begin,
                     std::int64_t end) {
    return {.rows = end - begin,
            .columns = outputs,
            .logits = logits + begin * outputs,
            .first = first,
            .labels = labels_.const_data_ptr<std::int64_t>() + begin,
            .scale = loss_.scale,
            .cap = loss_.cap,
            .top = top_.data() + begin,
            .total = total_.data() + begin};
  }

  void rescale_rows(const std::vector<float>& rescale) {
    auto* dx = dx_.mutable_data_ptr<float>();
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        scale_all(in_, rescale[static_cast<std::size_t>(row)], dx + row * in_);
    });
  }

  // The blocks left the sum of e^(z - top) times slope and weights: divided by the total these are
  // the probabilities', from which the label's own weights are taken.
  void finish_input_gradient(const std::vector<float>& chosen) {
    auto* dx = dx_.mutable_data_ptr<float>();
    const auto* labels = labels_.const_data_ptr<std::int64_t>();
    const auto* weight = loss_.linear.weight.const_data_ptr<float>();
    for_rows(rows_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        if (labels[row] < 0) continue;
        const auto r = static_cast<std::size_t>(row);
        const float x = loss_.cap > 0 ? chosen[r] / loss_.cap : 0;
        scale_all(in_, static_cast<float>(static_cast<double>(loss_.scale) / total_[r]),
                  dx + row * in_);
        kernels().add_scaled(in_, -loss_.scale * (1 - x * x), weight + labels[row] * in_,
                             dx + row * in_);
      }
    });
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

  at::Tensor x_;
  const LinearCrossEntropy loss_;
  at::Tensor labels_;
  const std::int64_t in_, classes_, rows_;
  const bool wants_input_;
  at::Tensor dx_;              // of the sum of the losses
  std::vector<float> top_;     // of each row, the largest logit
  std::vector<double> total_;  // of each row, the sum of e^(logit - top)
};

}  // namespace

at::Tensor linear_cross_entropy_block(const at::Tensor& x, const LinearCrossEntropy& loss,
                                      const at::Tensor& labels_R) {
  const at::Tensor input = x.contiguous();
  const at::Tensor& weight = loss.linear.weight;
  require_contiguous("LinearCrossEntropyBlock", weight);
  const bool wants_input = SplitNode::wants_gradients(input, {}),
             wants_weight = SplitNode::wants_gradients({}, {weight});
  const NodePtr pointer =
      make_node<LinearCrossEntropyNode>(input.detach(), loss, labels_R.contiguous(), wants_input);
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
