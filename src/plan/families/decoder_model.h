// The layers of a decoder: names, shapes and costs, from its DecoderConfig.
//
// Owns: embedding, blocks, last norm, head; costs of attention and of the gated MLP.
// Does not own: what a config.json means (decoder_config.h), modules (src/model/decoder_layer.h).
// Thread-safety: pure functions.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "plan/families/decoder_config.h"
#include "plan/families/number_bytes.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// Attention, or what stands behind it in a block. Its costs start behind the norm before it, whose
// result it keeps, and end before the residual.
struct BlockPart {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> parameters;  // below the block
  LayerCost cost, frozen_cost;         // frozen: nothing of the block is trained
  std::vector<ValueSpec> writes = {};  // beside what the block hands on
  bool fuses = false;                  // as a fused half of a block, which keeps less (fused.h)
};

// gate_proj, up_proj, down_proj of Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202.
// width: of its inner layer.
BlockPart gated_mlp(const DecoderConfig& config, std::int64_t width, const NumberBytes& bytes,
                    const std::string& name = "mlp");

// The feed-forward of the block `layer`.
using FeedForwardPart = std::function<BlockPart(std::int64_t layer, const NumberBytes& bytes)>;

// feed_forward: none: gated_mlp of every block.
ModelSpec decoder_model(const DecoderConfig& config, const Precision& precision,
                        const FeedForwardPart& feed_forward = {});

}  // namespace sluice::detail
