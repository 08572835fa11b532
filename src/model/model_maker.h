// A kind of model (kind/model_kind.h) with torch: its modules, the batches that it trains on, its
// kernels.
// Thread-safety: immutable; pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "kind/model_kind.h"
#include "sluice/causal_lm.h"
#include "sluice/data.h"
#include "sluice/model.h"
#include "sluice/model_spec.h"

namespace sluice {

class ModelMaker {
 public:
  virtual ~ModelMaker() = default;
  virtual Model model(const ModelSpec& spec, const LayerOptions& options) const = 0;
  // Rows as the batch of a step. model: of model(), or its evaluation.
  virtual StepBatch batch(TokenRows rows, const Model& model, std::int64_t microbatch_size,
                          std::int64_t step) const = 0;
  // The same for a replica whose rows begin with row first_row of the step.
  virtual StepBatch batch(StepShare share, const Model& model, std::int64_t first_row,
                          std::int64_t microbatch_size, std::int64_t step) const = 0;
  // The number that the model counts in rows, if RowNeeds::counts_by_model.
  virtual std::int64_t count(const TokenRows& rows, const Model& model) const = 0;
  // A batch of made-up numbers, to measure with. spec, model: some layers of a model.
  virtual StepBatch made_up_batch(const ModelSpec& spec, const Model& model,
                                  const MicrobatchShape& shape, int num_microbatches,
                                  std::int64_t step) const = 0;
  // Inputs of one text of `length` tokens, beside its ids: ModelSource::inputs_of_text().
  virtual Values text_inputs(const std::vector<ValueSpec>& inputs, std::int64_t length) const = 0;
  // Whether the kind has fused operators.
  virtual bool has_fused() const = 0;
  // The operators by which the model runs on the CPU: "fused, avx512, own products".
  virtual std::string kernels(const ModelSpec& spec, bool fused) const = 0;
};

// The half with torch of the kind that described the model. Precondition: it has a source.
const ModelMaker& maker_of(const ModelSpec& spec);

}  // namespace sluice
