#include "ops/embedding_block.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/block_parts.h"
#include "ops/kernels/kernels.h"

namespace sluice::ops {
namespace {

class EmbeddingNode final : public SplitNode {
 public:
  EmbeddingNode(at::Tensor ids, const at::Tensor& table_VD, std::int64_t padding_row)
      : ids_(std::move(ids)), table_(table_VD), padding_row_(padding_row) {}

  std::string name() const override { return "EmbeddingBlock"; }

 protected:
  Work<at::Tensor> input_half(const at::Tensor& /*gradient*/, bool /*wanted*/) override {
    return ready({});
  }
  void weight_half(const at::Tensor& gradient, WeightGradients& gradients) override {
    const WeightGradients::Target target = gradients.begin(0);
    const std::int64_t width = table_.size(1), count = ids_.numel();
    if (!target.adds) std::fill_n(target.data, table_.numel(), 0.0F);
    const auto* id = ids_.const_data_ptr<std::int64_t>();
    const auto* rows = gradient.const_data_ptr<float>();
    // Sum the gradients of equal ids before adding them to the target. The bits then equal those of
    // adding a complete gradient.
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return id[a] < id[b]; });
    std::vector<float> sum(static_cast<std::size_t>(width));
    for (auto next = order.begin(); next != order.end();) {
      const std::int64_t row = id[*next];
      std::copy_n(rows + *next * width, width, sum.begin());
      for (++next; next != order.end() && id[*next] == row; ++next)
        kernels().add_scaled(width, 1, rows + *next * width, sum.data());
      if (row != padding_row_)
        kernels().add_scaled(width, 1, sum.data(), target.data + row * width);
    }
  }
  void free_input_half() override {}
  void free_all() override { ids_.reset(); }

 private:
  at::Tensor ids_;
  const at::Tensor table_;
  const std::int64_t padding_row_;
};

}  // namespace

at::Tensor embedding_block(const at::Tensor& ids, const at::Tensor& table_VD,
                           std::int64_t padding_row) {
  at::Tensor found;
  {
    const at::NoGradGuard no_graph;
    found = at::embedding(table_VD, ids);
  }
  if (!SplitNode::wants_gradients({}, {table_VD})) return found;
  const NodePtr node =
      make_node<EmbeddingNode>(ids.to(at::kLong).contiguous(), table_VD, padding_row);
  static_cast<EmbeddingNode&>(*node).connect({}, {table_VD}, found);
  return found;
}

}  // namespace sluice::ops
