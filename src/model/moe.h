#pragma once

#include <vector>

#include "family/moe.h"
#include "sluice/causal_lm.h"

namespace sluice::detail {

std::vector<LayerSpec> make_moe_layers(const MoeConfig& config, const ModelSpec& model,
                                       const LayerOptions& options);

// The mean load_balancing_loss() over blocks with experts, times router_aux_loss_coef.
std::vector<AuxiliaryLoss> balance_losses(const MoeConfig& config);

}  // namespace sluice::detail
