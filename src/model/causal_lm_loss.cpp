#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "model/families.h"
#include "model/modules.h"
#include "ops/cross_entropy_block.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice {

namespace {

[[noreturn]] void refuse_labels(const at::Tensor& labels_BL, std::int64_t vocab_size) {
  throw Error(ErrorKind::kInput,
              {.what = "labels reach from " + std::to_string(labels_BL.min().item<std::int64_t>()) +
                       " to " + std::to_string(labels_BL.max().item<std::int64_t>()) +
                       ", the vocabulary has " + std::to_string(vocab_size) + " tokens",
               .where = "labels",
               .remedy = "use the tokenizer of this model, and " + std::to_string(kIgnoredLabel) +
                         " for labels that do not count"});
}

at::Tensor fused_sum(const at::Tensor& logits_RV, const at::Tensor& targets_R) {
  const at::Tensor counted_R = targets_R.masked_select(targets_R.ne(kIgnoredLabel));
  if (counted_R.numel() > 0) {
    const auto [least, most] = at::aminmax(counted_R);
    if (least.item<std::int64_t>() < 0 || most.item<std::int64_t>() >= logits_RV.size(1))
      C10_THROW_ERROR(IndexError, "a label is not of the vocabulary");
  }
  return ops::cross_entropy_block(logits_RV, targets_R);
}

LossValue next_token_loss(const Values& outputs, const Values& batch, bool fused) {
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
    const at::Tensor logits_RV = logits_BLV.flatten(0, 1);
    const at::Tensor targets_R = targets_BL.flatten().to(logits_BLV.device());
    const at::Tensor loss =
        fused && takes_fused(logits_BLV)
            ? fused_sum(logits_RV, targets_R)
            : at::cross_entropy_loss(logits_RV.to(at::kFloat), targets_R,
                                     /*weight=*/{}, at::Reduction::Sum, kIgnoredLabel);
    return {loss, count_tokens(labels_BL)};
  } catch (const c10::IndexError&) {
    refuse_labels(labels_BL, logits_BLV.size(2));
  }
}

}  // namespace

LossValue causal_lm_loss(const Values& outputs, const Values& batch) {
  return next_token_loss(outputs, batch, /*fused=*/false);
}

namespace detail {

LossValue fused_causal_lm_loss(const Values& outputs, const Values& batch) {
  return next_token_loss(outputs, batch, /*fused=*/true);
}

}  // namespace detail
}  // namespace sluice
