// The layers of a decoder, from its DecoderConfig: names, shapes and operators.
//
// Owns: embedding, blocks, last norm, head.
// Does not own: what a config.json means (decoder_config.h), costs (operators.h), modules
// (src/model/decoder_layer.h).
// Thread-safety: pure functions.
#pragma once

#include "family/decoder_config.h"
#include "family/experts.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// True if the halves of a block run as fused operators, as far as the model decides it.
bool fuses_attention(const DecoderConfig& config);
bool fuses_feed_forward(const DecoderConfig& config);

// experts: of the blocks that have some; null: none has.
ModelSpec decoder_model(const DecoderConfig& config, const Precision& precision,
                        const BlockExperts* experts = nullptr);

}  // namespace sluice::detail
