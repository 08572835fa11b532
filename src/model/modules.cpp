#include "model/modules.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <cmath>
#include <utility>

#include "base/format.h"
#include "layer/call_place.h"
#include "layer/unfilled.h"
#include "ops/embedding_block.h"
#include "ops/linear_block.h"
#include "parallel/divided_operators.h"
#include "parallel/shared_weights.h"
#include "sluice/error.h"

namespace sluice {
namespace {

at::Tensor allocate(at::IntArrayRef sizes, const LayerOptions& options) {
  return unfilled(sizes, at::TensorOptions(options.dtype).device(options.device));
}

bool is_sliced(const SliceGroup& tp) { return tp.slices().count > 1; }

ParameterSlices slices_of(std::vector<std::int64_t> shape, int dim,
                          const std::vector<std::int64_t>& sections, const SliceGroup& tp) {
  ParameterSlices slices;
  slices.global_shape = std::move(shape);
  slices.split = ParameterSplit{
      .dim = dim, .sections = sections.size() > 1 ? sections : std::vector<std::int64_t>()};
  slices.slices = tp.slices();
  return slices;
}

std::string name_of_variable(int slice) {
  return slice == 0 ? "weight" : "weight_" + std::to_string(slice);
}

}  // namespace

void require_one_slice(const std::string& what) {
  if (!is_sliced(SliceGroup::current())) return;
  throw Error(ErrorKind::kUsage,
              {.what = what + " cannot be divided among ranks of tensor parallelism yet",
               .where = "`tensor_parallel.degree`",
               .remedy = "set degree and slices of tensor parallelism to 1"});
}

bool supports_fused(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

std::int64_t whole_length(const at::Tensor& x_BLD, const SliceGroup& tp) {
  return x_BLD.size(1) * (tp.sequence_parallel() ? tp.degree() : 1);
}

Linear::Linear(std::int64_t in, std::int64_t out, bool bias, const LayerOptions& options,
               Division division)
    : Linear(in, out, bias, options, std::move(division), /*is_transposed=*/false) {}

Linear::Linear(std::int64_t in, std::int64_t out, bool bias, const LayerOptions& options,
               Division division, bool is_transposed)
    : in_(in),
      out_(out),
      division_(std::move(division)),
      is_transposed_(is_transposed),
      fused_(options.fused) {
  if (division_.sections.empty()) division_.sections = {out};
  if (division_.how != Division::How::kWhole) tp_ = SliceGroup::current();
  std::int64_t own_in = in, own_out = out;
  if (division_.how == Division::How::kRows) own_in = tp_.range(in).size;
  if (division_.how == Division::How::kColumns) {
    own_out = 0;
    for (const std::int64_t section : division_.sections) own_out += tp_.range(section).size;
  }
  std::vector<std::int64_t> shape = {own_out, own_in};
  if (is_transposed_) std::swap(shape[0], shape[1]);
  weight_ = register_parameter("weight", allocate(shape, options));
  if (bias) bias_ = register_parameter("bias", allocate({own_out}, options));
}

void Linear::require_no_adapter() const {
  if (!is_adapted()) return;
  throw Error(ErrorKind::kUsage, {.what = "adapters of divided layers are not built yet",
                                  .where = "LayerOptions::adapter",
                                  .remedy = "set degree and slices of tensor parallelism to 1"});
}

std::vector<at::Tensor> Linear::columns(const std::vector<at::Tensor>& inputs) const {
  require_no_adapter();
  const std::vector<at::Tensor> weights =
      detail::weight_slices(weight_, 1 - dim_of_inputs(), division_.sections, tp_);
  const std::vector<at::Tensor> biases =
      bias_.defined() ? detail::weight_slices(bias_, 0, division_.sections, tp_)
                      : std::vector<at::Tensor>();
  if (!is_transposed_) return detail::products(inputs, weights, biases);
  std::vector<at::Tensor> parts =
      detail::products_with_fixed_layout(inputs, weights, is_transposed_);
  for (std::size_t i = 0; i < biases.size(); ++i) parts[i] = parts[i] + biases[i];
  return parts;
}

at::Tensor Linear::rows(const std::vector<at::Tensor>& parts) const {
  require_no_adapter();
  return detail::sum_of_products(parts, {weight_, dim_of_inputs(), in_}, bias_, tp_);
}

std::vector<std::pair<std::string, ParameterSlices>> Linear::slices() const {
  if (!is_sliced(tp_)) return {};
  std::vector<std::int64_t> shape = {out_, in_};
  if (is_transposed_) std::swap(shape[0], shape[1]);
  if (division_.how == Division::How::kRows)
    return {{"weight", slices_of(shape, dim_of_inputs(), {in_}, tp_)}};
  std::vector<std::pair<std::string, ParameterSlices>> all = {
      {"weight", slices_of(shape, 1 - dim_of_inputs(), division_.sections, tp_)}};
  if (bias_.defined()) all.emplace_back("bias", slices_of({out_}, 0, division_.sections, tp_));
  return all;
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  if (fused_ && !is_adapted() && supports_fused(x)) return ops::linear_block(x, weights());
  return adapted(at::linear(x, weight_, bias_), x);
}

SharedLinear::SharedLinear(std::int64_t in, std::int64_t out, const LayerOptions& options)
    : Linear(in, out, /*bias=*/false, options),
      tp_(SliceGroup::current()),
      variables_{weight_},
      fused_(options.fused) {
  for (int slice = 1; slice < tp_.slices().size(); ++slice)
    variables_.push_back(register_parameter(name_of_variable(slice), weight_.detach()));
}

std::vector<std::pair<std::string, ParameterSlices>> SharedLinear::slices() const {
  if (!is_sliced(tp_)) return {};
  std::vector<std::pair<std::string, ParameterSlices>> all;
  const SliceRange own = tp_.slices();
  for (int slice = 0; slice < own.size(); ++slice) {
    all.push_back({name_of_variable(slice),
                   {.global_shape = weight_.sizes().vec(),
                    .slices = {own.begin + slice, own.begin + slice + 1, own.count},
                    .summed = {Axis::kTp},
                    .first_use = slice == 0 ? "" : name_of_variable(0)}});
  }
  return all;
}

at::Tensor SharedLinear::forward(const at::Tensor& x, std::size_t slice) const {
  const at::Tensor& weight = variables_.at(slice);
  if (fused_ && supports_fused(x)) return ops::linear_block(x, {weight, {}, false});
  return at::linear(x, weight);
}

Conv1D::Conv1D(std::int64_t in, std::int64_t out, const LayerOptions& options, Division division)
    : Linear(in, out, /*bias=*/true, options, std::move(division), /*is_transposed=*/true) {}

at::Tensor Conv1D::forward(const at::Tensor& x) const {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = weight_.size(1);
  return adapted(at::addmm(bias_, x.reshape({-1, weight_.size(0)}), weight_).view(sizes), x);
}

RmsNorm::RmsNorm(std::int64_t size, double eps, const LayerOptions& options, Scale scale)
    : tp_(SliceGroup::current()), eps_(eps), scale_(scale), fused_(options.fused) {
  weight_ = register_parameter("weight", allocate({size}, options));
}

ops::NormWeights RmsNorm::weights() const {
  return {.kind = ops::NormWeights::Kind::kRms,
          .weight = weight_,
          .eps = eps_,
          .offset = scale_ == Scale::kWideWeightAndOne ? 1.0F : 0.0F};
}

at::Tensor RmsNorm::forward(const at::Tensor& x) const {
  if (fused_ && supports_fused(x)) return ops::norm_block(x, weights(), tp_);
  return normed(x, weight_, tp_);
}

std::vector<at::Tensor> RmsNorm::forward_each(const std::vector<at::Tensor>& parts) const {
  const std::vector<at::Tensor> weights = copy_to(weight_, tp_);
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < parts.size(); ++i)
    results.push_back(normed(parts[i], weights[i], SliceGroup()));
  return results;
}

at::Tensor RmsNorm::normed(const at::Tensor& x, const at::Tensor& weight,
                           const SliceGroup& tp) const {
  const at::Tensor wide = x.to(wide_type(x));
  const at::Tensor normalized = wide * at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps_);
  switch (scale_) {
    case Scale::kWeight:
      return detail::multiply_shared(normalized.to(x.scalar_type()), weight, tp);
    case Scale::kWideWeight:
      return detail::multiply_shared(normalized, weight, tp).to(x.scalar_type());
    case Scale::kWideWeightAndOne:
      break;
  }
  return detail::multiply_shared(normalized, weight.to(wide_type(x)) + 1.0, tp).to(x.scalar_type());
}

LayerNorm::LayerNorm(std::int64_t size, double eps, const LayerOptions& options)
    : tp_(SliceGroup::current()), eps_(eps), fused_(options.fused) {
  weight_ = register_parameter("weight", allocate({size}, options));
  bias_ = register_parameter("bias", allocate({size}, options));
}

ops::NormWeights LayerNorm::weights() const {
  return {.kind = ops::NormWeights::Kind::kLayer, .weight = weight_, .bias = bias_, .eps = eps_};
}

at::Tensor LayerNorm::forward(const at::Tensor& x) const {
  if (fused_ && supports_fused(x)) return ops::norm_block(x, weights(), tp_);
  return detail::layer_norm_shared(x, weight_.sizes(), weight_, bias_, eps_, tp_);
}

std::vector<at::Tensor> LayerNorm::forward_each(const std::vector<at::Tensor>& parts) const {
  const std::vector<at::Tensor> weights = copy_to(weight_, tp_), biases = copy_to(bias_, tp_);
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < parts.size(); ++i)
    results.push_back(at::layer_norm(parts[i], weight_.sizes(), weights[i], biases[i], eps_));
  return results;
}

Embedding::Embedding(std::int64_t rows, std::int64_t size, std::int64_t padding_row,
                     const LayerOptions& options, bool is_divided)
    : tp_(SliceGroup::current()),
      rows_(rows),
      size_(size),
      is_divided_(is_divided && is_sliced(tp_)),
      padding_row_(padding_row),
      fused_(options.fused) {
  weight_ = register_parameter(
      "weight", allocate({is_divided_ ? tp_.range(rows).size : rows, size}, options));
}

std::vector<std::pair<std::string, ParameterSlices>> Embedding::slices() const {
  if (!is_divided_) return {};
  return {{"weight", slices_of({rows_, size_}, 0, {rows_}, tp_)}};
}

at::Tensor Embedding::forward(const at::Tensor& ids_BL) const {
  if (is_divided_) return detail::divided_embedding(weight_, ids_BL, rows_, padding_row_, tp_);
  try {
    if (is_sliced(tp_)) return detail::embedding_shared(weight_, ids_BL, tp_);
    if (fused_ && supports_fused(weight_))
      return ops::embedding_block(ids_BL, weight_, padding_row_);
    return at::embedding(weight_, ids_BL, padding_row_);
  } catch (const c10::IndexError&) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("token ids reach from {} to {}, but the embedding has {} rows",
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
  // CUDA kernels support grouped heads only for half types without a mask.
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
  // Work in place where the backward allows it: scores are the model's largest tensors.
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
