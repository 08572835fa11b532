// Mixtral: arXiv:2401.04088. Qwen3-MoE: arXiv:2505.09388. OLMoE: arXiv:2409.02060.
#include "model/moe.h"

#include "model/decoder_layer.h"
#include "model/experts.h"

namespace sluice::detail {

std::vector<LayerSpec> make_moe_layers(const MoeConfig& config, const ModelSpec& model,
                                       const LayerOptions& options) {
  const auto make = [=](std::int64_t layer) -> std::shared_ptr<FeedForward> {
    if (config.has_experts.at(static_cast<std::size_t>(layer)))
      return std::make_shared<Experts>(config.experts, config.decoder.hidden_size, options);
    return make_gated_mlp(config.decoder, config.decoder.intermediate_size, options);
  };
  return make_decoder_layers(config.decoder, model, options, {config.experts.block, make});
}

std::vector<AuxiliaryLoss> balance_losses(const MoeConfig& config) {
  if (!config.experts.balance_coefficient || config.num_sparse() == 0) return {};
  return {{balance_value(), *config.experts.balance_coefficient / config.num_sparse()}};
}

}  // namespace sluice::detail
