#pragma once

#include <cstdint>
#include <vector>

#include "sluice/data.h"
#include "sluice/model.h"
#include "sluice/model_spec.h"
#include "sluice/parts/values.h"

namespace sluice::detail {

// Returns CPU tensors. An input comes from the field of its name, or is input_ids, labels,
// attention_mask (default 1) or position_ids (default 0, 1, ..). Throws Error(kInput) for other
// inputs.
Values graph_inputs(const TokenRows& rows, std::int64_t first, std::int64_t count,
                    const std::vector<ValueSpec>& inputs);

// Makes microbatches like causal_lm_batch(). `model` comes from graph_model().
StepBatch graph_batch(TokenRows rows, const Model& model, std::int64_t microbatch_size,
                      std::int64_t step);
StepBatch graph_batch(StepShare share, const Model& model, std::int64_t first_row,
                      std::int64_t microbatch_size, std::int64_t step);

// Artificial inputs for measurements. Ids are below the vocabulary size.
Values made_up_inputs(const ModelSpec& model, const MicrobatchShape& shape);

}  // namespace sluice::detail
