// Follows transformers' Olmo2Config.
#include "family/olmo2.h"

namespace sluice::detail {

DecoderConfig read_olmo2_config(const ConfigReader& config) {
  DecoderConfig out = read_decoder_config(
      config, {.sizes = {50304, 4096, 11008, 32, 32}, .default_norm_eps = 1e-5, .pad_token_id = 1});
  out.qkv_bias = out.output_bias = config.flag("attention_bias", false);
  out.norm = NormKind::kWideRms;
  out.norm_places = NormPlaces::kBehind;
  out.head_norms = HeadNorms::kTogether;
  out.wide_rope = true;
  out.ropes = {read_rope(config, out.max_position_embeddings)};
  return out;
}

}  // namespace sluice::detail
