#include "plan/families/fused.h"

#include <algorithm>

#include "plan/families/number_bytes.h"

namespace sluice::detail {
namespace {

constexpr double kFloat = 4;
// Floats that a norm keeps of a row beside its input (src/ops/norm.h).
constexpr double kNormFloats = 2;
// In the kernel of attention (src/ops/kernels/attention_kernels.h): queries of a block, floats
// between their rows of scores, matrices of a head's width as long as the keys.
constexpr double kQueryBlock = 48, kSlack = 16, kKeyMatrices = 5;

constexpr const char* kLossValue = "loss";

void add_per_token(ShapePolynomial& bytes, double floats) { bytes.per_token += kFloat * floats; }

}  // namespace

bool fuses_attention(const DecoderConfig& config) {
  const bool norms_fit = config.head_norms == HeadNorms::kNone || config.norm != NormKind::kLayer;
  const bool scale_fits = config.residual_scale == 1.0 || !config.output_bias;
  return config.head_dim % kFusedHeadMultiple == 0 && config.attention_dropout == 0 && norms_fit &&
         scale_fits;
}

bool fuses_feed_forward(const DecoderConfig& config) {
  return config.residual_scale == 1.0 || !config.mlp_bias;
}

void keep_operations_alone(LayerCost& cost) {
  cost = {.forward_flops = cost.forward_flops,
          .input_flops = cost.input_flops,
          .weight_flops = cost.weight_flops};
}

void FusedBytes::add_half(std::int64_t hidden, bool norm_before, bool norm_behind) {
  const double d = as_double(hidden);
  inputs_ += d;
  gradients_ += d;  // of the half's result
  if (norm_before) {
    until_weight_ += d;
    until_input_ += kNormFloats;
    running_.insert(hidden);
    once_ += d;
  } else {
    inputs_until_weight_ += d;
  }
  if (norm_behind) {
    until_input_ += d + kNormFloats;
    after_input_ += d;
    once_ += d;
  }
}

void FusedBytes::add(const FusedAttention& a) {
  add_half(a.hidden, a.norm_before, a.norm_behind);
  const double width = as_double(a.query_width + 2 * a.key_width);
  until_weight_ += as_double(a.query_width);
  until_input_ += width + as_double(a.heads);
  if (a.head_norm_groups > 0)
    until_input_ += as_double(a.query_width + a.key_width + a.head_norm_groups);
  after_input_ += width;
  running_.insert(a.query_width);
  scratch_ = kKeyMatrices * as_double(a.head_dim) + 2 * kQueryBlock;
  fixed_scratch_ = 2 * kQueryBlock * (kSlack + as_double(a.head_dim)) + kSlack;
  forward_ = std::max(forward_, as_double(3 * a.hidden));
}

void FusedBytes::add(const FusedFeedForward& f) {
  add_half(f.hidden, f.norm_before, f.norm_behind);
  const double inner = as_double((f.is_gated ? 3 : 2) * f.inner);
  until_weight_ += inner;
  running_.insert(f.inner);
  forward_ = std::max(forward_, as_double(3 * f.hidden));
}

void FusedBytes::add_to(LayerCost& cost, LayerCost& frozen_cost) const {
  double running = 0;
  for (const std::int64_t width : running_) running += as_double(width);
  for (LayerCost* of : {&cost, &frozen_cost}) {
    add_per_token(of->after_forward, inputs_);
    add_per_token(of->on_entry, inputs_);  // the gradients of both halves' inputs
    add_per_token(of->in_forward, forward_);
    add_per_token(of->pooled.in_backward, running);
    for (ShapePolynomial* bytes : {&of->pooled.in_backward, &of->pooled.in_forward}) {
      bytes->per_length += kFloat * scratch_;
      bytes->constant += kFloat * fixed_scratch_;
    }
    of->pooled.after_input.constant += kFloat * once_;
    add_per_token(of->pooled.after_input, after_input_);
  }
  add_per_token(cost.after_input, gradients_ + inputs_until_weight_);
  add_per_token(cost.pooled.until_input, until_input_);
  add_per_token(cost.pooled.until_weight, until_weight_);
  // Without weights to come everything ends with the gradient of the input.
  add_per_token(frozen_cost.pooled.until_input, until_input_ + until_weight_);
  frozen_cost.pooled.in_backward.constant += frozen_cost.pooled.after_input.constant;
  frozen_cost.pooled.in_backward.per_token += frozen_cost.pooled.after_input.per_token;
  frozen_cost.pooled.after_input = {};
}

// In the forward the logits and, of their exponentials, the gradient of what enters; the weight's
// gradient makes the logits again.
void set_loss_by_blocks(std::int64_t vocab_size, std::int64_t width, LayerInfo& head) {
  constexpr double kLabel = 8;
  head.reads = {"hidden", "labels"};
  head.writes = {{kLossValue, {}}};
  const double flops = 2.0 * as_double(vocab_size) * as_double(width);
  const double block = kFloat * as_double(std::min(kLossBlock, vocab_size));
  LayerCost cost;
  cost.forward_flops.per_token = 2 * flops;
  cost.weight_flops.per_token = 2 * flops;
  cost.in_forward.per_token = block;
  cost.on_entry.per_token = block;
  head.frozen_cost = cost;
  // The input is not kept for a frozen weight, but its gradient is all the same.
  head.frozen_cost->after_forward.per_token = kLabel;
  head.cost = cost;
  head.cost.after_forward.per_token = kFloat * as_double(width) + kLabel;
  head.cost.after_input.per_token = kLabel;
}

bool computes_loss(const LayerInfo& layer) {
  return layer.role == LayerRole::kHead && !layer.writes.empty() &&
         layer.writes.front().name == kLossValue;
}

void add_fused_norm(std::int64_t hidden, LayerCost& cost) {
  add_per_token(cost.after_forward, as_double(hidden));
  add_per_token(cost.pooled.until_input, kNormFloats);
  cost.pooled.after_input.constant += kFloat * as_double(hidden);
}

}  // namespace sluice::detail
