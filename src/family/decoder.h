// The common layers of decoders. Each layer passes one value, "hidden", to the next.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "family/operators.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// "input_ids" and "labels", int64 [rows, length].
std::vector<ValueSpec> decoder_inputs();

// Creates a layer from "hidden" to "hidden" of `width` per token. A block also reads the optional
// inputs "attention_mask" and "position_ids".
LayerInfo hidden_layer(std::string name, LayerRole role, std::int64_t width);

// `scaled`: embeddings are multiplied by a constant.
LayerInfo embedding_layer(std::string name, std::int64_t rows, std::int64_t width,
                          const Precision& precision, double dropout = 0.0, bool scaled = false,
                          std::int64_t num_positions = 0);
LayerInfo norm_layer(std::string name, NormKind kind, std::int64_t width,
                     const Precision& precision);
// Computes logits, tied to the parameter `embedding` unless that is "". Its cost includes the loss.
// If the loss is computed in vocabulary blocks, it reads hidden and labels and writes the loss.
LayerInfo head_layer(std::string name, std::int64_t vocab_size, std::int64_t width,
                     const std::string& embedding, const Precision& precision, bool capped = false);

}  // namespace sluice::detail
