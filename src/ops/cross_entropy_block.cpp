#include "ops/cross_entropy_block.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/kernels/kernels.h"
#include "ops/parallel_rows.h"
#include "ops/split_node.h"

namespace sluice::ops {
namespace {

class CrossEntropyNode final : public SplitNode {
 public:
  CrossEntropyNode(at::Tensor logits_RV, at::Tensor labels_R)
      : logits_(std::move(logits_RV)), labels_(std::move(labels_R)) {}

  std::string name() const override { return "CrossEntropyBlock"; }

  double sum() const {
    const std::int64_t rows = logits_.size(0), classes = logits_.size(1);
    const auto* logits = logits_.const_data_ptr<float>();
    const auto* labels = labels_.const_data_ptr<std::int64_t>();
    const std::int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
    std::vector<double> of_blocks(static_cast<std::size_t>(blocks));
    at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t first = block * kRowBlock;
        of_blocks[static_cast<std::size_t>(block)] = kernels().cross_entropy_value(
            std::min(kRowBlock, rows - first), classes, logits + first * classes, labels + first);
      }
    });
    return std::accumulate(of_blocks.begin(), of_blocks.end(), 0.0);
  }

 protected:
  Work<at::Tensor> input_half(const at::Tensor& gradient, bool /*wanted*/) override {
    // If no other tensor uses the logits' storage, the gradient may overwrite them.
    at::Tensor result =
        logits_.storage().use_count() == 1 ? std::exchange(logits_, {}) : logits_.clone();
    logits_.reset();
    const std::int64_t rows = result.size(0), classes = result.size(1);
    const float scale = gradient.item<float>();
    auto* logits = result.mutable_data_ptr<float>();
    const auto* labels = labels_.const_data_ptr<std::int64_t>();
    for_rows(rows, [&](std::int64_t begin, std::int64_t end) {
      kernels().cross_entropy(end - begin, classes, logits + begin * classes, labels + begin,
                              scale);
    });
    return ready(result);
  }
  void weight_half(const at::Tensor& /*gradient*/, WeightGradients& /*gradients*/) override {}
  void free_input_half() override { logits_.reset(); }
  void free_all() override {
    logits_.reset();
    labels_.reset();
  }

 private:
  at::Tensor logits_, labels_;
};

}  // namespace

at::Tensor cross_entropy_block(const at::Tensor& logits_RV, const at::Tensor& labels_R) {
  const at::Tensor logits = logits_RV.contiguous();
  const NodePtr pointer = make_node<CrossEntropyNode>(logits.detach(), labels_R.contiguous());
  auto& node = static_cast<CrossEntropyNode&>(*pointer);
  at::Tensor loss;
  {
    const at::NoGradGuard no_graph;
    loss = at::scalar_tensor(node.sum(), at::kFloat);
  }
  if (SplitNode::wants_gradients(logits, {})) node.connect(logits, {}, loss);
  return loss;
}

}  // namespace sluice::ops
