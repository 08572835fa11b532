#pragma once

#include <cstdint>
#include <string>

#include "kind/model_kind.h"
#include "sluice/causal_lm.h"
#include "sluice/data.h"
#include "sluice/model.h"
#include "sluice/model_spec.h"

namespace sluice {

// Makes the modules and batches of a kind of models. By default, a model's input comes from the
// tokens or a row's field of its name (detail::graph_inputs()).
class ModelMaker {
 public:
  virtual ~ModelMaker() = default;
  virtual Model model(const ModelSpec& spec, const LayerOptions& options) const = 0;
  // Makes a step's batch. `model` comes from model(), or is that model's `evaluation`.
  virtual StepBatch batch(TokenRows rows, const Model& model, std::int64_t microbatch_size,
                          std::int64_t step) const;
  virtual StepBatch batch(StepShare share, const Model& model, std::int64_t first_row,
                          std::int64_t microbatch_size, std::int64_t step) const;
  // What the loss averages over, if RowNeeds::counts_by_model.
  virtual std::int64_t count(const TokenRows& rows, const Model& model) const;
  virtual StepBatch made_up_batch(const ModelSpec& spec, const Model& model,
                                  const MicrobatchShape& shape, int num_microbatches,
                                  std::int64_t step) const;
  // Returns all inputs but ids, see ModelSource::inputs_of_text().
  virtual Values text_inputs(const std::vector<ValueSpec>& inputs, std::int64_t length) const;
  virtual bool has_fused() const { return false; }
  // For example "fused, avx512, own products".
  virtual std::string kernels(const ModelSpec& /*spec*/, bool /*fused*/) const { return "plain"; }
};

// The maker of the model's kind, from `kinds` or from sluice's own.
const ModelMaker& maker_of(KindTable kinds, const ModelSpec& spec);

}  // namespace sluice
