#include <utility>

#include "model/graph_batch.h"
#include "model/graph_modules.h"
#include "model/makers.h"

namespace sluice::detail {
namespace {

class GraphMaker : public ModelMaker {
 public:
  Model model(const ModelSpec& spec, const LayerOptions& /*options*/) const override {
    return graph_model(spec);
  }
  StepBatch batch(TokenRows rows, const Model& model, std::int64_t microbatch_size,
                  std::int64_t step) const override {
    return graph_batch(std::move(rows), model, microbatch_size, step);
  }
  StepBatch batch(StepShare share, const Model& model, std::int64_t first_row,
                  std::int64_t microbatch_size, std::int64_t step) const override {
    return graph_batch(std::move(share), model, first_row, microbatch_size, step);
  }
  std::int64_t count(const TokenRows& rows, const Model& model) const override {
    return model.count(graph_inputs(rows, 0, rows.num_rows, model.description->inputs));
  }
  StepBatch made_up_batch(const ModelSpec& spec, const Model& model, const MicrobatchShape& shape,
                          int num_microbatches, std::int64_t step) const override {
    StepBatch batch;
    batch.step = step;
    const Values inputs = made_up_inputs(spec, shape);
    for (int m = 0; m < num_microbatches; ++m) {
      batch.counts.push_back(model.count(inputs));
      batch.microbatches.push_back(inputs);
    }
    return batch;
  }
  Values text_inputs(const std::vector<ValueSpec>& inputs, std::int64_t length) const override {
    TokenRows rows;
    rows.num_rows = 1;
    rows.seq_len = length;
    return graph_inputs(rows, 0, 1, inputs);
  }
  bool has_fused() const override { return false; }
  std::string kernels(const ModelSpec& /*spec*/, bool /*fused*/) const override {
    return "those of LibTorch, as exported";
  }
};

}  // namespace

const ModelMaker& graph_maker() {
  static const GraphMaker maker;
  return maker;
}

}  // namespace sluice::detail
