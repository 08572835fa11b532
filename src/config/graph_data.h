// The form of a run's rows for an exported graph: sequences of tokens with fields beside them, or
// fields alone.
//
// Owns: the inputs of the graph that are tokens of a row, those that are fields, with their shapes,
// and the unit that a step counts. Does not own: reading rows (data.h), tensors
// (model/graph_batch.h).
// Thread-safety: values; pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/data.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct GraphData {
  // Rows are sequences: the graph has `input_ids` [rows, length] and a loss of one label for each.
  bool tokens = false;
  std::vector<FieldOption> fields;  // all other inputs
  // With tokens: the graph has attention_mask, position_ids of the shape of input_ids.
  bool takes_mask = false, takes_positions = false;
  CountOf count = CountOf::kRows;
  // How much a microbatch counts has to be asked of the model: it is neither labels nor rows.
  bool counts_by_model = false;
  // With tokens: ids and labels are below these; those of no limit where none is known.
  std::int64_t vocab_size = 0, num_labels = 0;
};

// model: of describe_graph(). Throws Error(kInput) naming the input that rows cannot give: one that
// has no dimension of rows.
GraphData data_of_graph(const ModelSpec& model);

// Sets what rows are for the model, where it is a graph.
void set_rows_of_model(const ModelSpec& model, TokenDataOptions& options);

}  // namespace sluice::detail
