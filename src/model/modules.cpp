#include "model/modules.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <cmath>

#include "base/format.h"
#include "ops/embedding_block.h"
#include "ops/linear_block.h"
#include "sluice/error.h"

namespace sluice {
namespace {

at::Tensor allocate(at::IntArrayRef sizes, const LayerOptions& options) {
  return at::empty(sizes, at::TensorOptions(options.dtype).device(options.device));
}

}  // namespace

bool takes_fused(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

Linear::Linear(std::int64_t in, std::int64_t out, bool bias, const LayerOptions& options)
    : fused_(options.fused) {
  weight_ = register_parameter("weight", allocate({out, in}, options));
  if (bias) bias_ = register_parameter("bias", allocate({out}, options));
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  if (fused_ && !is_adapted() && takes_fused(x)) return ops::linear_block(x, weights());
  return adapted(at::linear(x, weight_, bias_), x);
}

Conv1D::Conv1D(std::int64_t in, std::int64_t out, const LayerOptions& options) {
  weight_ = register_parameter("weight", allocate({in, out}, options));
  bias_ = register_parameter("bias", allocate({out}, options));
}

at::Tensor Conv1D::forward(const at::Tensor& x) const {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight_.size(1);
  return adapted(at::addmm(bias_, x.reshape({-1, weight_.size(0)}), weight_).view(sizes), x);
}

RmsNorm::RmsNorm(std::int64_t size, double eps, const LayerOptions& options, Scale scale)
    : eps_(eps), scale_(scale), fused_(options.fused) {
  weight_ = register_parameter("weight", allocate({size}, options));
}

ops::NormWeights RmsNorm::weights() const {
  return {.kind = ops::NormWeights::Kind::kRms,
          .weight = weight_,
          .eps = eps_,
          .offset = scale_ == Scale::kWideWeightAndOne ? 1.0F : 0.0F};
}

at::Tensor RmsNorm::forward(const at::Tensor& x) const {
  if (fused_ && takes_fused(x)) return ops::norm_block(x, weights());
  const at::Tensor wide = x.to(wide_type(x));
  const at::Tensor normalized = wide * at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps_);
  switch (scale_) {
    case Scale::kWeight:
      return weight_ * normalized.to(x.scalar_type());
    case Scale::kWideWeight:
      return (weight_ * normalized).to(x.scalar_type());
    case Scale::kWideWeightAndOne:
      break;
  }
  return (normalized * (weight_.to(wide_type(x)) + 1.0)).to(x.scalar_type());
}

LayerNorm::LayerNorm(std::int64_t size, double eps, const LayerOptions& options)
    : eps_(eps), fused_(options.fused) {
  weight_ = register_parameter("weight", allocate({size}, options));
  bias_ = register_parameter("bias", allocate({size}, options));
}

ops::NormWeights LayerNorm::weights() const {
  return {.kind = ops::NormWeights::Kind::kLayer, .weight = weight_, .bias = bias_, .eps = eps_};
}

at::Tensor LayerNorm::forward(const at::Tensor& x) const {
  if (fused_ && takes_fused(x)) return ops::norm_block(x, weights());
  return at::layer_norm(x, weight_.sizes(), weight_, bias_, eps_);
}

Embedding::Embedding(std::int64_t rows, std::int64_t size, std::int64_t padding_row,
                     const LayerOptions& options)
    : padding_row_(padding_row), fused_(options.fused) {
  weight_ = register_parameter("weight", allocate({rows, size}, options));
}

at::Tensor Embedding::forward(const at::Tensor& ids_BL) const {
  try {
    if (fused_ && takes_fused(weight_)) return ops::embedding_block(ids_BL, weight_, padding_row_);
    return at::embedding(weight_, ids_BL, padding_row_);
  } catch (const c10::IndexError&) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("token ids reach from {} to {}, the embedding has {} rows",
                                   ids_BL.min().item<std::int64_t>(),
                                   ids_BL.max().item<std::int64_t>(), weight_.size(0)),
                 .where = "input_ids",
                 .remedy = "use the tokenizer of this model"});
  }
}

at::Tensor attention(const at::Tensor& q_BHLE, const at::Tensor& k_BKLE, const at::Tensor& v_BKLE,
                     const at::Tensor& mask, const AttentionSettings& settings) {
  const std::int64_t group = q_BHLE.size(1) / k_BKLE.size(1);
  const bool is_causal = !mask.defined();
  // The kernels that share key-value heads by themselves: on CPU all, on CUDA those of half types
  // without a mask.
  const bool native = group == 1 || q_BHLE.is_cpu() ||
                      (is_causal && at::isReducedFloatingType(q_BHLE.scalar_type()));
  const at::Tensor k = native ? k_BKLE : k_BKLE.repeat_interleave(group, 1);
  const at::Tensor v = native ? v_BKLE : v_BKLE.repeat_interleave(group, 1);
  const std::optional<at::Tensor> added = is_causal ? std::nullopt : std::optional(mask);
  const at::Tensor out_BHLE = at::scaled_dot_product_attention(
      q_BHLE, k, v, added, settings.dropout, is_causal, settings.scale,
      /*enable_gqa=*/native && group != 1);
  return out_BHLE.transpose(1, 2).flatten(2);
}

at::Tensor soft_cap(const at::Tensor& x, double cap) { return at::tanh(x / cap) * cap; }

at::Tensor plain_attention(const at::Tensor& q_BHLE, const at::Tensor& k_BKLE,
                           const at::Tensor& v_BKLE, const at::Tensor& mask,
                           const std::optional<double>& cap, const AttentionSettings& settings) {
  const std::int64_t group = q_BHLE.size(1) / k_BKLE.size(1);
  const at::Tensor k_BHLE = group == 1 ? k_BKLE : k_BKLE.repeat_interleave(group, 1);
  const at::Tensor v_BHLE = group == 1 ? v_BKLE : v_BKLE.repeat_interleave(group, 1);
  const double scale =
      settings.scale.value_or(1.0 / std::sqrt(static_cast<double>(q_BHLE.size(-1))));
  // In place where no backward reads what was there: these are the largest tensors of the model.
  at::Tensor scores = at::matmul(q_BHLE, k_BHLE.transpose(2, 3)).mul_(scale);
  if (cap) scores = scores.div_(*cap).tanh_() * *cap;
  at::Tensor weights =
      at::softmax(scores.add_(mask), -1, wide_type(scores)).to(q_BHLE.scalar_type());
  scores.reset();
  if (settings.dropout > 0) weights = at::dropout(weights, settings.dropout, /*train=*/true);
  return at::matmul(weights, v_BHLE).transpose(1, 2).flatten(2);
}

at::Tensor split_heads(const at::Tensor& x_BLD, std::int64_t head_dim) {
  return x_BLD.unflatten(-1, {-1, head_dim}).transpose(1, 2);
}

}  // namespace sluice
