// The layers of decoders with experts, and their load balancing losses.
// Thread-safety: as make_layers().
#pragma once

#include <vector>

#include "family/moe.h"
#include "sluice/causal_lm.h"

namespace sluice::detail {

std::vector<LayerSpec> make_moe_layers(const MoeConfig& config, const ModelSpec& model,
                                       const LayerOptions& options);

// The mean over the blocks with experts, times router_aux_loss_coef; none without
// output_router_logits.
std::vector<AuxiliaryLoss> balance_losses(const MoeConfig& config);

}  // namespace sluice::detail
