// Rows of data as the microbatches of an exported graph.
//
// Owns: the inputs of a microbatch, in the graph's types, those that rows may leave out. Does not
// own: which fields rows have (archive/graph_rows.h), reading them (data.h), the rules that sizes
// have to keep (Model::count checks them).
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/data.h"
#include "sluice/model.h"
#include "sluice/model_spec.h"
#include "sluice/parts/values.h"

namespace sluice::detail {

// One tensor for each of `inputs` (ModelSpec::inputs), of rows [first, first + count), on the CPU:
// a field of its name, else of tokens input_ids, labels, attention_mask (1 where the rows have
// none) or position_ids (0, 1, 2, ..). Throws Error(kInput) for an input that rows do not give.
Values graph_inputs(const TokenRows& rows, std::int64_t first, std::int64_t count,
                    const std::vector<ValueSpec>& inputs);

// As causal_lm_batch(). model: of graph_model(), which says how much each microbatch counts.
StepBatch graph_batch(TokenRows rows, const Model& model, std::int64_t microbatch_size,
                      std::int64_t step);
StepBatch graph_batch(StepShare share, const Model& model, std::int64_t first_row,
                      std::int64_t microbatch_size, std::int64_t step);

// A microbatch of made-up numbers in the sizes of `shape`, to measure with: ids below the
// vocabulary, other integers 0.
Values made_up_inputs(const ModelSpec& model, const MicrobatchShape& shape);

}  // namespace sluice::detail
