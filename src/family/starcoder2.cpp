// Follows transformers' Starcoder2Config.
#include "family/starcoder2.h"

namespace sluice::detail {

DecoderConfig read_starcoder2_config(const ConfigReader& config) {
  DecoderConfig out = read_decoder_config(config, {.sizes = {49152, 3072, 12288, 30, 24},
                                                   .num_key_value_heads = 2,
                                                   .max_position_embeddings = 4096,
                                                   .norm_eps = "norm_epsilon",
                                                   .default_norm_eps = 1e-5,
                                                   .default_activation = "gelu_pytorch_tanh",
                                                   .tie_word_embeddings = true});
  out.initializer_range = config.number("initializer_range", 0.018042, 0.0, 1.0);
  out.norm = NormKind::kLayer;
  out.plain_mlp = true;
  out.qkv_bias = out.output_bias = out.mlp_bias = config.flag("use_bias", true);
  out.residual_dropout = config.number("residual_dropout", 0.0, 0.0, 1.0);
  out.embedding_dropout = config.number("embedding_dropout", 0.0, 0.0, 1.0);
  const std::int64_t window = read_window(config, std::nullopt).value_or(0);
  for (BlockConfig& block : out.blocks) block.window = window;
  out.ropes = {read_rope(config, out.max_position_embeddings)};
  return out;
}

}  // namespace sluice::detail
