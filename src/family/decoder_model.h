#pragma once

#include "family/decoder_config.h"
#include "family/experts.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// Whether our fused operators support the attention (below: the feed-forward) of the model.
bool fuses_attention(const DecoderConfig& config);
bool fuses_feed_forward(const DecoderConfig& config);

// `experts` is null without a mixture of experts.
ModelSpec decoder_model(const DecoderConfig& config, const Precision& precision,
                        const BlockExperts* experts = nullptr);

}  // namespace sluice::detail
