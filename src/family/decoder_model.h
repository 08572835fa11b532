// Builds the layers of a decoder.
#pragma once

#include "family/decoder_config.h"
#include "family/experts.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// Whether fused operators support this half of the model's blocks.
bool fuses_attention(const DecoderConfig& config);
bool fuses_feed_forward(const DecoderConfig& config);

// `experts` may be null.
ModelSpec decoder_model(const DecoderConfig& config, const Precision& precision,
                        const BlockExperts* experts = nullptr);

}  // namespace sluice::detail
