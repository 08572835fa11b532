#include "model/head.h"

#include <ATen/ATen.h>

#include "base/kernel_sizes.h"
#include "model/next_token_loss.h"

namespace sluice {

Head::Head(const HeadConfig& config, const LayerOptions& options)
    : Linear(config.hidden_size, config.vocab_size, /*bias=*/false, options),
      config_(config),
      fused_(options.fused) {}

at::Tensor Head::forward(const at::Tensor& x_BLD) const {
  at::Tensor logits_BLV = Linear::forward(x_BLD);
  if (config_.logit_divisor != 1.0) logits_BLV = logits_BLV / config_.logit_divisor;
  return config_.logit_cap ? soft_cap(logits_BLV, *config_.logit_cap) : logits_BLV;
}

at::Tensor LossHead::forward(const at::Tensor& x_BLD, const at::Tensor& labels_BL) const {
  if (!fused_ || is_adapted() || !takes_fused(x_BLD))
    return detail::next_token_sum(Head::forward(x_BLD), labels_BL, fused_);
  return detail::next_token_sum(x_BLD,
                                {.linear = weights(),
                                 .scale = static_cast<float>(1.0 / config_.logit_divisor),
                                 .cap = static_cast<float>(config_.logit_cap.value_or(0.0)),
                                 .block = ops::kLossBlock},
                                labels_BL);
}

}  // namespace sluice
