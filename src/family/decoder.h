// The common part of decoders: token ids in, one value from layer to layer, a head without bias.
//
// Owns: values of the layers, the ends of a decoder.
// Does not own: blocks (decoder_model.h, gpt2.cpp), costs (operators.h).
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "family/operators.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// Int64 [rows, length] "input_ids" and "labels".
std::vector<ValueSpec> decoder_inputs();

// A layer that reads "hidden" and writes it with `width` numbers a token. A block also reads from
// the batch "attention_mask" and "position_ids", which it may lack.
LayerInfo hidden_layer(std::string name, LayerRole role, std::int64_t width);

// input_ids -> hidden. scaled: what is looked up.
LayerInfo embedding_layer(std::string name, std::int64_t rows, std::int64_t width,
                          const Precision& precision, double dropout = 0.0, bool scaled = false,
                          std::int64_t num_positions = 0);
LayerInfo norm_layer(std::string name, NormKind kind, std::int64_t width,
                     const Precision& precision);
// hidden -> logits; tied to the parameter `embedding` unless that is "". Its cost has the loss in
// it. Where the loss is computed by blocks: hidden, labels -> loss.
LayerInfo head_layer(std::string name, std::int64_t vocab_size, std::int64_t width,
                     const std::string& embedding, const Precision& precision, bool capped = false);

}  // namespace sluice::detail
