#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "base/format.h"
#include "model/families.h"
#include "model/modules.h"
#include "model/next_token_loss.h"
#include "ops/cross_entropy_block.h"
#include "sluice/causal_lm.h"
#include "sluice/error.h"

namespace sluice {

namespace {

[[noreturn]] void refuse_labels(const at::Tensor& labels_BL, std::int64_t vocab_size) {
  throw Error(
      ErrorKind::kInput,
      {.what = formatted("labels reach from {} to {}, but the vocabulary has {} tokens",
                         labels_BL.min().item<std::int64_t>(), labels_BL.max().item<std::int64_t>(),
                         vocab_size),
       .where = "labels",
       .remedy = formatted("use this model's tokenizer, and {} for labels that do not count",
                           kIgnoredLabel)});
}

// `row_parts`: the number of ranks that divide the length of `x` among them.
void require_shapes(const std::string& what, const at::Tensor& x, const at::Tensor& labels_BL,
                    std::int64_t row_parts = 1) {
  if (x.dim() == 3 && labels_BL.dim() == 2 && labels_BL.size(0) == x.size(0) &&
      labels_BL.size(1) == x.size(1) * row_parts)
    return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("{} are {}, but labels are {}", what, to_text(meta_of(x)),
                                 to_text(meta_of(labels_BL))),
               .where = "next-token loss",
               .remedy = "give logits [batch, length, vocabulary] and labels [batch, length]"});
}

// Shift the labels, because shifting logits needs a copy.
at::Tensor targets_of(const at::Tensor& labels_BL) {
  const std::int64_t length = labels_BL.size(1);
  at::Tensor targets_BL = at::full_like(labels_BL, kIgnoredLabel, at::kLong);
  if (length > 1) targets_BL.narrow(1, 0, length - 1).copy_(labels_BL.narrow(1, 1, length - 1));
  return targets_BL.flatten();
}

bool are_in_vocabulary(const at::Tensor& targets_R, std::int64_t vocab_size) {
  const at::Tensor counted_R = targets_R.masked_select(targets_R.ne(kIgnoredLabel));
  if (counted_R.numel() == 0) return true;
  const auto [least, most] = at::aminmax(counted_R);
  return least.item<std::int64_t>() >= 0 && most.item<std::int64_t>() < vocab_size;
}

LossValue next_token_loss(const Values& outputs, const Values& batch, bool fused) {
  const at::Tensor& labels_BL = batch.get("labels");
  return {detail::next_token_sum(outputs.get("logits"), labels_BL, fused),
          count_tokens(batch.on_host().get("labels"))};
}

}  // namespace

LossValue causal_lm_loss(const Values& outputs, const Values& batch) {
  return next_token_loss(outputs, batch, /*fused=*/false);
}

namespace detail {

LossValue fused_causal_lm_loss(const Values& outputs, const Values& batch) {
  return next_token_loss(outputs, batch, /*fused=*/true);
}

LossValue loss_of_head(const Values& outputs, const Values& batch) {
  return {outputs.get("loss"), count_tokens(batch.on_host().get("labels"))};
}

at::Tensor next_token_sum(const at::Tensor& logits_BLV, const at::Tensor& labels_BL, bool fused) {
  require_shapes("logits", logits_BLV, labels_BL);
  const std::int64_t vocab_size = logits_BLV.size(2);
  const at::Tensor logits_RV = logits_BLV.flatten(0, 1);
  const at::Tensor targets_R = targets_of(labels_BL).to(logits_BLV.device());
  if (fused && supports_fused(logits_BLV)) {
    if (!are_in_vocabulary(targets_R, vocab_size)) refuse_labels(labels_BL, vocab_size);
    return ops::cross_entropy_block(logits_RV, targets_R);
  }
  try {
    return at::cross_entropy_loss(logits_RV.to(at::kFloat), targets_R,
                                  /*weight=*/{}, at::Reduction::Sum, kIgnoredLabel);
  } catch (const c10::IndexError&) {
    refuse_labels(labels_BL, vocab_size);
  }
}

at::Tensor next_token_sum(const at::Tensor& x_BLD, const ops::LinearCrossEntropy& head,
                          const at::Tensor& labels_BL) {
  // With sequence parallelism, x has only this rank's tokens, the labels have all.
  require_shapes("the head's inputs", x_BLD, labels_BL,
                 head.slices.sequence_parallel() ? head.slices.degree() : 1);
  const at::Tensor targets_R = targets_of(labels_BL);
  if (!are_in_vocabulary(targets_R, head.classes)) refuse_labels(labels_BL, head.classes);
  return ops::linear_cross_entropy_block(x_BLD, head, targets_R);
}

at::Tensor next_token_sum(const std::vector<at::Tensor>& logits, const at::Tensor& labels_BL,
                          std::int64_t vocab_size, const SliceGroup& tp) {
  require_shapes("logits", logits.front(), labels_BL);
  const at::Tensor targets_R = targets_of(labels_BL).to(logits.front().device());
  if (targets_R.is_cpu() && !are_in_vocabulary(targets_R, vocab_size))
    refuse_labels(labels_BL, vocab_size);
  std::vector<at::Tensor> rows;
  rows.reserve(logits.size());
  for (const at::Tensor& of_slice : logits) rows.push_back(of_slice.flatten(0, 1));
  return parallel_cross_entropy(rows, targets_R, vocab_size, tp, kIgnoredLabel).sum();
}

}  // namespace detail
}  // namespace sluice
