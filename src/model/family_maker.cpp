#include <algorithm>
#include <utility>

#include "base/format.h"
#include "model/makers.h"
#include "ops/kernels/kernels.h"
#include "ops/products.h"

namespace sluice::detail {
namespace {

class FamilyMaker : public ModelMaker {
 public:
  Model model(const ModelSpec& spec, const LayerOptions& options) const override {
    return causal_lm(spec, options);
  }
  StepBatch batch(TokenRows rows, const Model& /*model*/, std::int64_t microbatch_size,
                  std::int64_t step) const override {
    return causal_lm_batch(std::move(rows), microbatch_size, step);
  }
  StepBatch batch(StepShare share, const Model& /*model*/, std::int64_t first_row,
                  std::int64_t microbatch_size, std::int64_t step) const override {
    return causal_lm_batch(std::move(share), first_row, microbatch_size, step);
  }
  std::int64_t count(const TokenRows& rows, const Model& /*model*/) const override {
    return rows.counted_labels(0, rows.num_rows);
  }
  StepBatch made_up_batch(const ModelSpec& spec, const Model& /*model*/,
                          const MicrobatchShape& shape, int num_microbatches,
                          std::int64_t step) const override {
    TokenRows rows;
    rows.num_rows = num_microbatches * shape.rows;
    rows.seq_len = shape.length;
    const std::int64_t vocabulary = std::max<std::int64_t>(1, spec.vocab_size);
    for (std::int64_t i = 0; i < rows.num_rows * rows.seq_len; ++i)
      rows.ids.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocabulary));
    rows.labels = rows.ids;
    return causal_lm_batch(std::move(rows), shape.rows, step);
  }
  Values text_inputs(const std::vector<ValueSpec>& /*inputs*/,
                     std::int64_t /*length*/) const override {
    return {};
  }
  bool has_fused() const override { return true; }
  std::string kernels(const ModelSpec& spec, bool fused) const override {
    if (!fused) return formatted("plain, {}", ops::kernels().name);
    return formatted("fused, {}, {}{}", ops::kernels().name, ops::products_name(),
                     spec.layers.back().loss_by_blocks ? ", loss by blocks" : "");
  }
};

}  // namespace

const ModelMaker& family_maker() {
  static const FamilyMaker maker;
  return maker;
}

}  // namespace sluice::detail
