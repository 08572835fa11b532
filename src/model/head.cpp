#include "model/head.h"

#include <ATen/ATen.h>

#include "base/kernel_sizes.h"
#include "model/next_token_loss.h"
#include "parallel/divided_operators.h"

namespace sluice {

Head::Head(const HeadConfig& config, const LayerOptions& options)
    : Linear(config.hidden_size, config.vocab_size, /*bias=*/false, options,
             {.how = Division::How::kColumns}),
      config_(config),
      tp_(SliceGroup::current()),
      fused_(options.fused) {}

at::Tensor Head::scaled(at::Tensor logits_BLV) const {
  if (config_.logit_divisor != 1.0) logits_BLV = logits_BLV / config_.logit_divisor;
  return config_.logit_cap ? soft_cap(logits_BLV, *config_.logit_cap) : logits_BLV;
}

std::vector<at::Tensor> Head::logits_of_slices(const at::Tensor& x_BLD) const {
  std::vector<at::Tensor> logits = columns(detail::enter(x_BLD, tp_));
  for (at::Tensor& of_slice : logits) of_slice = scaled(of_slice);
  return logits;
}

at::Tensor Head::forward(const at::Tensor& x_BLD) const {
  if (!is_sliced()) return scaled(Linear::forward(x_BLD));
  return gather_from(detail::concatenated(logits_of_slices(x_BLD), -1), tp_);
}

at::Tensor LossHead::forward(const at::Tensor& x_BLD, const at::Tensor& labels_BL) const {
  if (!labels_BL.defined()) return Head::forward(x_BLD);
  const bool fuses = fused_ && !is_adapted() && supports_fused(x_BLD);
  if (!fuses && is_sliced())
    return detail::next_token_sum(logits_of_slices(x_BLD), labels_BL, config_.vocab_size, tp_);
  if (!fuses || !(config_.loss_by_blocks || is_sliced()))
    return detail::next_token_sum(Head::forward(x_BLD), labels_BL, fused_);
  return detail::next_token_sum(x_BLD,
                                {.linear = weights(),
                                 .scale = static_cast<float>(1.0 / config_.logit_divisor),
                                 .cap = static_cast<float>(config_.logit_cap.value_or(0.0)),
                                 .block = config_.loss_by_blocks ? ops::kLossBlock : 0,
                                 .slices = tp_,
                                 .classes = config_.vocab_size},
                                labels_BL);
}

}  // namespace sluice
