// Builds the layers of a decoder model.
#pragma once

#include "family/decoder_config.h"
#include "family/experts.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// Whether our fused operators support the attention (or, below, the feed-forward) of the model's
// blocks.
bool fuses_attention(const DecoderConfig& config);
bool fuses_feed_forward(const DecoderConfig& config);

// Describes a decoder. With `experts`, which may be null, some blocks have a mixture of experts.
ModelSpec decoder_model(const DecoderConfig& config, const Precision& precision,
                        const BlockExperts* experts = nullptr);

}  // namespace sluice::detail
