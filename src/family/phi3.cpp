// Follows transformers' Phi3Config.
#include "family/phi3.h"

namespace sluice::detail {

DecoderConfig read_phi3_config(const ConfigReader& config) {
  DecoderConfig out = read_decoder_config(config, {.sizes = {32064, 3072, 8192, 32, 32},
                                                   .max_position_embeddings = 4096,
                                                   .default_norm_eps = 1e-5,
                                                   .pad_token_id = 32000});
  out.fused_qkv = out.fused_gate_up = true;
  if (config.number("resid_pdrop", 0.0, 0.0, 1.0) != 0.0) {
    config.fail("resid_pdrop", "dropout on what a block adds is not implemented", "set it to 0");
  }
  for (BlockConfig& block : out.blocks)
    block.window = read_window(config, std::nullopt).value_or(0);
  out.ropes = {read_rope(config, out.max_position_embeddings, RopeKeys{.only_longrope = true})};
  out.rotary_dim = turned_channels(config, out.ropes.front(), out.head_dim);
  return out;
}

}  // namespace sluice::detail
