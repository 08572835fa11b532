// Layers of decoder models, which pass on "hidden".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "family/operators.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// Inputs "input_ids" and "labels", int64 [rows, length].
std::vector<ValueSpec> decoder_inputs();

// A layer that reads and writes "hidden", [rows, length, width]. A block also reads the optional
// "attention_mask" and "position_ids".
LayerInfo hidden_layer(std::string name, LayerRole role, std::int64_t width);

LayerInfo embedding_layer(std::string name, std::int64_t rows, std::int64_t width,
                          const Precision& precision, double dropout = 0.0, bool scaled = false,
                          std::int64_t num_positions = 0);
LayerInfo norm_layer(std::string name, NormKind kind, std::int64_t width,
                     const Precision& precision);
// The head's cost includes the loss. Unless `embedding` is "", the head is tied to that parameter.
// If the loss uses vocabulary blocks, the layer reads labels and writes the loss instead of logits.
LayerInfo head_layer(std::string name, std::int64_t vocab_size, std::int64_t width,
                     const std::string& embedding, const Precision& precision, bool capped = false);

}  // namespace sluice::detail
