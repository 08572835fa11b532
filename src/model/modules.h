// Modules of decoder layers, with Hugging Face's parameter names. Unlike in torch::nn, parameters
// are not initialized, because weights are loaded or drawn later. A module belongs to one thread.
//
// Tensor names end in their shapes:
//   B batch   L length   D hidden size   F intermediate size   V vocabulary
//   H query heads   K key-value heads   E size of a head   R half of it
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/low_rank.h"
#include "ops/norm.h"
#include "ops/products.h"
#include "sluice/causal_lm.h"
#include "sluice/layer.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice {

// How tensor-parallel ranks divide a layer (SliceGroup::current()).
struct Division {
  enum class How { kWhole, kColumns, kRows };
  How how = How::kWhole;
  std::vector<std::int64_t> sections = {};  // output sizes of projections in one weight
};

class Linear : public AdaptableLinear, public SlicedModule {
 public:
  Linear(std::int64_t in, std::int64_t out, bool bias, const LayerOptions& options,
         Division division = {});
  at::Tensor forward(const at::Tensor& x) const;
  ops::LinearWeights weights() const { return {weight_, bias_, is_transposed_}; }
  // Requires kColumns. Returns the outputs of each slice of this rank.
  std::vector<at::Tensor> columns(const std::vector<at::Tensor>& inputs) const;
  // Requires kRows. Returns the sum over all ranks' slices, plus the bias. With sequence
  // parallelism, returns only this rank's tokens.
  at::Tensor rows(const std::vector<at::Tensor>& parts) const;
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

 protected:
  Linear(std::int64_t in, std::int64_t out, bool bias, const LayerOptions& options,
         Division division, bool is_transposed);

  at::Tensor weight_, bias_;  // [out, in], [out], or this rank's slices

 private:
  int dim_of_inputs() const { return is_transposed_ ? 0 : 1; }
  void require_no_adapter() const;

  std::int64_t in_, out_;
  Division division_;
  bool is_transposed_;
  SliceGroup tp_;
  bool fused_;
};

// A Linear whose weight is stored as [in, out].
class Conv1D : public Linear {
 public:
  Conv1D(std::int64_t in, std::int64_t out, const LayerOptions& options, Division division = {});
  at::Tensor forward(const at::Tensor& x) const;
};

// A Linear without bias whose whole weight every tensor-parallel slice applies to its own rows. Has
// one variable per slice of this rank, so that each slice's gradient has a separate sum.
class SharedLinear : public Linear {
 public:
  SharedLinear(std::int64_t in, std::int64_t out, const LayerOptions& options);
  // slice: index among the slices of this rank
  at::Tensor forward(const at::Tensor& x, std::size_t slice = 0) const;
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

 private:
  SliceGroup tp_;
  std::vector<at::Tensor> variables_;  // weight_ and its aliases
  bool fused_;
};

class Norm : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x) const = 0;
  // Normalizes each slice of this rank, such as its heads, separately. All slices share one weight,
  // so its gradient is the sum over the slices of all ranks.
  virtual std::vector<at::Tensor> forward_each(const std::vector<at::Tensor>& parts) const = 0;
  virtual ops::NormWeights weights() const = 0;
};

// Zhang, Sennrich, NeurIPS 2019.
class RmsNorm : public Norm {
 public:
  // Multiplies by the weight in x's dtype, in float32, or by 1 + weight in float32.
  enum class Scale { kWeight, kWideWeight, kWideWeightAndOne };
  RmsNorm(std::int64_t size, double eps, const LayerOptions& options, Scale scale = Scale::kWeight);
  at::Tensor forward(const at::Tensor& x) const override;
  std::vector<at::Tensor> forward_each(const std::vector<at::Tensor>& parts) const override;
  ops::NormWeights weights() const override;

 private:
  at::Tensor normed(const at::Tensor& x, const at::Tensor& weight, const SliceGroup& tp) const;

  SliceGroup tp_;
  at::Tensor weight_;
  double eps_;
  Scale scale_;
  bool fused_;
};

class LayerNorm : public Norm {
 public:
  LayerNorm(std::int64_t size, double eps, const LayerOptions& options);
  at::Tensor forward(const at::Tensor& x) const override;
  std::vector<at::Tensor> forward_each(const std::vector<at::Tensor>& parts) const override;
  ops::NormWeights weights() const override;

 private:
  SliceGroup tp_;
  at::Tensor weight_, bias_;
  double eps_;
  bool fused_;
};

// The padding row gets no gradient. Tensor-parallel ranks divide the rows if is_divided.
class Embedding : public torch::nn::Module, public SlicedModule {
 public:
  Embedding(std::int64_t rows, std::int64_t size, std::int64_t padding_row,
            const LayerOptions& options, bool is_divided = true);
  // With sequence parallelism, returns this rank's tokens. On the CPU, throws Error(kInput) for an
  // id outside the table.
  at::Tensor forward(const at::Tensor& ids_BL) const;
  const at::Tensor& weight() const { return weight_; }
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

 protected:
  SliceGroup tp_;

 private:
  std::int64_t rows_, size_;
  bool is_divided_;
  at::Tensor weight_;
  std::int64_t padding_row_;
  bool fused_;
};

// Throws Error(kUsage) with tensor parallelism, which cannot divide `what`.
void require_one_slice(const std::string& what);

inline at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Fused operators take float32 on the CPU, without autocast.
bool supports_fused(const at::Tensor& x);

// The length of the whole sequence, even if x has only this rank's tokens.
std::int64_t whole_length(const at::Tensor& x_BLD, const SliceGroup& tp);

struct AttentionSettings {
  double dropout = 0.0;
  std::optional<double> scale;  // default 1 / sqrt(E)
};

// Scaled dot-product attention, where query head h uses key-value head h / (H / K). `mask`, [B or
// 1, 1, L, L], is added to the scores. Without a mask, attention is causal. Returns [B, L, H * E].
at::Tensor attention(const at::Tensor& q_BHLE, const at::Tensor& k_BKLE, const at::Tensor& v_BKLE,
                     const at::Tensor& mask, const AttentionSettings& settings);
// attention() by plain operators, with a soft cap on scores. Requires a mask. If a finite mask
// hides all tokens, the result is the mean of all values.
at::Tensor plain_attention(const at::Tensor& q_BHLE, const at::Tensor& k_BKLE,
                           const at::Tensor& v_BKLE, const at::Tensor& mask,
                           const std::optional<double>& cap, const AttentionSettings& settings);
at::Tensor soft_cap(const at::Tensor& x, double cap);

// [B, L, heads * E] -> [B, heads, L, E], a view
at::Tensor split_heads(const at::Tensor& x_BLD, std::int64_t head_dim);

}  // namespace sluice
