// Which parts of a block run as fused operators (src/ops), as far as the model decides it.
// Thread-safety: pure functions.
#pragma once

#include "plan/families/decoder_config.h"

namespace sluice::detail {

inline constexpr std::int64_t kFusedHeadMultiple = 16;

inline bool fuses_attention(const DecoderConfig& config) {
  const bool norms_fit = config.head_norms == HeadNorms::kNone || config.norm != NormKind::kLayer;
  const bool scale_fits = config.residual_scale == 1.0 || !config.output_bias;
  return config.head_dim % kFusedHeadMultiple == 0 && config.attention_dropout == 0 && norms_fit &&
         scale_fits;
}

inline bool fuses_feed_forward(const DecoderConfig& config) {
  return config.residual_scale == 1.0 || !config.mlp_bias;
}

}  // namespace sluice::detail
