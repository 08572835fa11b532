#include <ATen/ATen.h>

#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice {

LossValue causal_lm_loss(const Values& outputs, const Values& batch) {
  const at::Tensor& logits_BLV = outputs.get("logits");
  const at::Tensor& labels_BL = batch.get("labels");
  if (logits_BLV.dim() != 3 || labels_BL.sizes() != logits_BLV.sizes().slice(0, 2)) {
    throw Error(ErrorKind::kUsage,
                {.what = "logits are " + to_text(meta_of(logits_BLV)) + ", labels " +
                         to_text(meta_of(labels_BL)),
                 .where = "next-token loss",
                 .remedy = "give logits [batch, length, vocabulary] and labels [batch, length]"});
  }
  // Labels move, not logits, which stay one contiguous block without a copy.
  const std::int64_t length = labels_BL.size(1);
  at::Tensor targets_BL = at::full_like(labels_BL, kIgnoredLabel, at::kLong);
  if (length > 1) targets_BL.narrow(1, 0, length - 1).copy_(labels_BL.narrow(1, 1, length - 1));
  try {
    const at::Tensor loss = at::cross_entropy_loss(
        logits_BLV.flatten(0, 1).to(at::kFloat), targets_BL.flatten().to(logits_BLV.device()),
        /*weight=*/{}, at::Reduction::Sum, kIgnoredLabel);
    return {loss, count_tokens(labels_BL)};
  } catch (const c10::IndexError&) {
    throw Error(
        ErrorKind::kInput,
        {.what = "labels reach from " + std::to_string(labels_BL.min().item<std::int64_t>()) +
                 " to " + std::to_string(labels_BL.max().item<std::int64_t>()) +
                 ", the vocabulary has " + std::to_string(logits_BLV.size(2)) + " tokens",
         .where = "labels",
         .remedy = "use the tokenizer of this model, and " + std::to_string(kIgnoredLabel) +
                   " for labels that do not count"});
  }
}

}  // namespace sluice
