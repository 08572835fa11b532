#include "model/model_maker.h"

#include <string>
#include <utility>

#include "archive/graph_kind.h"
#include "family/family_kind.h"
#include "model/graph_batch.h"
#include "model/makers.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct Row {
  const ModelKind& (*kind)();
  const ModelMaker& (*maker)();
};
constexpr Row kRows[] = {{detail::family_kind, detail::family_maker},
                         {detail::graph_kind, detail::graph_maker}};

}  // namespace

StepBatch ModelMaker::batch(TokenRows rows, const Model& model, std::int64_t microbatch_size,
                            std::int64_t step) const {
  return detail::graph_batch(std::move(rows), model, microbatch_size, step);
}

StepBatch ModelMaker::batch(StepShare share, const Model& model, std::int64_t first_row,
                            std::int64_t microbatch_size, std::int64_t step) const {
  return detail::graph_batch(std::move(share), model, first_row, microbatch_size, step);
}

std::int64_t ModelMaker::count(const TokenRows& rows, const Model& model) const {
  return model.count(detail::graph_inputs(rows, 0, rows.num_rows, model.description->inputs));
}

StepBatch ModelMaker::made_up_batch(const ModelSpec& spec, const Model& model,
                                    const MicrobatchShape& shape, int num_microbatches,
                                    std::int64_t step) const {
  StepBatch batch;
  batch.step = step;
  const Values inputs = detail::made_up_inputs(spec, shape);
  for (int m = 0; m < num_microbatches; ++m) {
    batch.counts.push_back(model.count(inputs));
    batch.microbatches.push_back(inputs);
  }
  return batch;
}

Values ModelMaker::text_inputs(const std::vector<ValueSpec>& inputs, std::int64_t length) const {
  TokenRows rows;
  rows.num_rows = 1;
  rows.seq_len = length;
  return detail::graph_inputs(rows, 0, 1, inputs);
}

const ModelMaker& maker_of(KindTable kinds, const ModelSpec& spec) {
  for (const auto& [kind, maker] : kinds)
    if (maker && kind == &spec.source->kind()) return *maker;
  for (const Row& row : kRows)
    if (&row.kind() == &spec.source->kind()) return row.maker();
  throw Error(ErrorKind::kInternal, {.what = "the kind of the model has no maker",
                                     .where = std::string(spec.source->kind().title())});
}

}  // namespace sluice
