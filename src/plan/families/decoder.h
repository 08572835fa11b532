// The common part of decoders: token ids in, one value from layer to layer, a head without bias.
//
// Owns: values and costs of the ends of a decoder, starts of its layers. Costs are those of
// LibTorch's operators on the CPU.
// Does not own: blocks (decoder_model.h, gpt2.cpp).
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/families/number_bytes.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// Int64 [rows, length] "input_ids" and "labels".
std::vector<ValueSpec> decoder_inputs();

// The inputs of a block: "hidden", and from the batch "attention_mask" and "position_ids", which it
// may lack.
std::vector<std::string> block_reads();

// Appends {layer.name}.{name}.weight, and .bias unless it is empty.
void append_parameters(LayerInfo& layer, const std::string& name, std::vector<std::int64_t> weight,
                       std::vector<std::int64_t> bias = {});

// A layer that reads "hidden" and writes it with `width` numbers a token.
LayerInfo hidden_layer(std::string name, LayerRole role, std::int64_t width);

// input_ids -> hidden. parameters: first the table [vocabulary, width].
LayerInfo embedding_layer(std::string name, std::vector<ParameterSpec> parameters,
                          const NumberBytes& bytes, double dropout = 0.0);
// hidden -> logits; `lm_head`, tied to the parameter `embedding` unless that is "". Its cost has
// the loss in it. Where the loss is computed by blocks: hidden, labels -> loss.
LayerInfo head_layer(std::int64_t vocab_size, std::int64_t width, const std::string& embedding,
                     const NumberBytes& bytes);
// Cost of two parts of a layer that run one after the other.
LayerCost one_after_other(const LayerCost& a, const LayerCost& b);

// Extra memory of the backward of plain attention where the feed-forward behind it is fused: memory
// that has been kept is free for fused operators alone. width: of queries, keys and values
// together.
ShapePolynomial entry_of_plain_attention(std::int64_t width, std::int64_t heads, bool drops,
                                         const NumberBytes& bytes);

}  // namespace sluice::detail
