// The parts that decoder layers are built of, with parameters under Hugging Face's names.
//
// Owns: modules whose parameters are allocated but not initialised (weights are loaded or drawn by
// full name afterwards; torch::nn's own modules would draw every weight first).
// Does not own: the layers of a family (decoder_layer.h, gpt2.cpp).
// Shapes of tensors are in their names:
//   B batch   L length of the sequence   D hidden size   F intermediate size   V vocabulary
//   H query heads   K key-value heads   E size of a head   R half of it
// Thread-safety: a module belongs to one thread.
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

// How a layer is divided where ranks share its slices (SliceGroup::current() when it is made).
struct Division {
  enum class How { kWhole, kColumns, kRows };
  How how = How::kWhole;
  std::vector<std::int64_t> sections = {};  // sections of columns: several projections; empty: one
};

class Linear : public AdaptableLinear, public SlicedModule {
 public:
  Linear(std::int64_t in, std::int64_t out, bool bias, const LayerOptions& options,
         Division division = {});
  // [.., in] -> [.., out]. Precondition: whole, or of one slice.
  at::Tensor forward(const at::Tensor& x) const;
  ops::LinearWeights weights() const { return {weight_, bias_, is_transposed_}; }
  // Divided by columns: of each own slice what it makes of its input.
  std::vector<at::Tensor> columns(const std::vector<at::Tensor>& inputs) const;
  // Divided by rows: the sum over all slices, and the bias; with sequence parallelism the rows of
  // this rank.
  at::Tensor rows(const std::vector<at::Tensor>& parts) const;
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

 protected:
  // is_transposed: the weight is stored as [in, out].
  Linear(std::int64_t in, std::int64_t out, bool bias, const LayerOptions& options,
         Division division, bool is_transposed);

  at::Tensor weight_, bias_;  // [out, in], [out] or undefined; or of this rank

 private:
  int dim_of_inputs() const { return is_transposed_ ? 0 : 1; }
  void require_no_adapter() const;

  std::int64_t in_, out_;
  Division division_;
  bool is_transposed_;
  SliceGroup tp_;
  bool fused_;
};

// Linear with a bias and its weight stored as [in, out].
class Conv1D : public Linear {
 public:
  Conv1D(std::int64_t in, std::int64_t out, const LayerOptions& options, Division division = {});
  at::Tensor forward(const at::Tensor& x) const;
};

// Over the last dimension.
class Norm : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x) const = 0;
  // Norms the part of each own slice (its heads, for instance) by itself: the gradient of the
  // weights is the sum over all slices.
  virtual std::vector<at::Tensor> forward_each(const std::vector<at::Tensor>& parts) const = 0;
  virtual ops::NormWeights weights() const = 0;
};

// Zhang, Sennrich: "Root Mean Square Layer Normalization", NeurIPS 2019. Computed in float32, of
// float64 in float64.
class RmsNorm : public Norm {
 public:
  // The factor of the normalized x: the weight, in the type of x or still in float32, or in float32
  // the weight and 1.
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

// padding_row: takes no gradient; -1: none. Where ranks share slices its rows are divided, or it is
// whole on each.
class Embedding : public torch::nn::Module, public SlicedModule {
 public:
  Embedding(std::int64_t rows, std::int64_t size, std::int64_t padding_row,
            const LayerOptions& options, bool is_divided = true);
  // With sequence parallelism the rows of this rank. Throws Error(kInput) for an id outside the
  // table (on CPU).
  at::Tensor forward(const at::Tensor& ids_BL) const;
  const at::Tensor& weight() const { return weight_; }
  std::vector<std::pair<std::string, ParameterSlices>> slices() const override;

 protected:
  SliceGroup tp_;

 private:
  std::int64_t rows_, size_;
  bool is_divided_;
  at::Tensor weight_;  // this rank's part
  std::int64_t padding_row_;
  bool fused_;
};

// Throws Error(kUsage) where ranks share the slices of the modules that are being made, and `what`
// has no slices.
void require_one_slice(const std::string& what);

// In which norms, probabilities and turned queries are computed: float32, or float64 of float64.
inline at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// True if fused operators take a layer's input: float32 on the CPU, not under autocast.
bool takes_fused(const at::Tensor& x);

// The length of sequences of which x has the rows of this rank.
std::int64_t whole_length(const at::Tensor& x_BLD, const SliceGroup& tp);

struct AttentionSettings {
  double dropout = 0.0;
  std::optional<double> scale;  // scale of the scores; none: 1 / sqrt(E)
};

// Scaled dot-product attention; query head h uses key-value head h / (H / K). mask: is added to the
// scores, [B or 1, 1, L, L]; undefined: a token sees itself and those before it. Returns [B, L, H *
// E].
at::Tensor attention(const at::Tensor& q_BHLE, const at::Tensor& k_BKLE, const at::Tensor& v_BKLE,
                     const at::Tensor& mask, const AttentionSettings& settings);
// The same by plain operators, in which who sees nothing of a mask of finite numbers gets the mean
// of all; cap: scores s become cap * tanh(s / cap). The mask has to be there.
at::Tensor plain_attention(const at::Tensor& q_BHLE, const at::Tensor& k_BKLE,
                           const at::Tensor& v_BKLE, const at::Tensor& mask,
                           const std::optional<double>& cap, const AttentionSettings& settings);
// cap * tanh(x / cap)
at::Tensor soft_cap(const at::Tensor& x, double cap);

// [B, L, heads * E] -> [B, heads, L, E], without a copy.
at::Tensor split_heads(const at::Tensor& x_BLD, std::int64_t head_dim);

}  // namespace sluice
