// Costs of operators of built-in families: operations, bytes saved for the backward and temporary
// memory, of LibTorch's CPU operators and our fused ones (src/ops). Sizes are per tensor-parallel
// rank.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/kernel_sizes.h"
#include "plan/operator_costs.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

enum class Activation { kSilu, kGelu, kGeluTanh, kRelu };

enum class NormKind {
  kRms,         // normalizes in the dtype of x, multiplies by the weight
  kWideRms,     // like kRms, in float32
  kRmsPlusOne,  // in float32, times 1 + weight
  kLayer,       // layer norm with bias
};

struct ExpertSizes {
  std::string block;  // prefix of "gate" (the router) and "experts"
  std::string gate, up, down;
  std::int64_t hidden = 0, inner = 0, experts = 0, top_k = 0;
  Activation activation = Activation::kSilu;
  bool normalizes = false, wide_weights = false, balances = false;
};

// The attention half of a block, with norm and residual sum. Strings are parameter names, or "".
struct AttentionSizes {
  std::string norm_before, norm_behind, query_norm, key_norm;
  std::vector<std::string> projections;  // modules for q, k, v, or one for all
  std::string output;
  NormKind norm = NormKind::kRms;
  std::int64_t hidden = 0, heads = 0, head_dim = 0, query_width = 0, key_width = 0;
  std::int64_t rotary_dim = 0;
  bool wide_rotary = false;    // rotate in float32
  bool norms_heads = false;    // norm each head of q and k separately
  bool copies_values = false;  // copies q, k, v out of a joint product instead of viewing it
  bool capped = false;         // caps scores, and stores them unless fused
  double dropout = 0, residual_dropout = 0;
  bool fused = false;
};

// The feed-forward half of a block: last(activation(first(x))), or last(activation(gate(x)) *
// up(x)).
struct FeedForwardSizes {
  std::string norm_before, norm_behind;
  std::vector<std::string> projections;  // gate and up, one for both, or first
  std::string last;
  std::string reads = "h";  // "x" means the block's input
  NormKind norm = NormKind::kRms;
  Activation activation = Activation::kSilu;
  std::int64_t hidden = 0, inner = 0;
  bool gated = true;
  double residual_dropout = 0;
  bool fused = false;
};

// The parameters and operators of a layer, in module order.
class OperatorList {
 public:
  explicit OperatorList(const Precision& precision);

  bool fuses() const { return precision_.fuses(); }

  // Adds a matrix [rows, columns] with an optional bias, or a vector [size].
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns, bool bias = false,
              bool transposed = false);
  void vector(const std::string& name, std::int64_t size, bool bias = false);
  // Divide a matrix over tensor-parallel ranks. divide_outputs() also divides the bias. With
  // divide_inputs(), products are partial sums and every rank has the bias. `sections` and `units`
  // are those of ParameterSplit.
  void divide_outputs(const std::string& name, std::int64_t units = 0,
                      std::vector<std::int64_t> sections = {}, bool transposed = false);
  void divide_inputs(const std::string& name, std::int64_t units = 0, bool transposed = false);

  // Every tensor-parallel rank has the whole position table.
  void embedding(std::int64_t rows, std::int64_t width, double dropout, bool scaled,
                 std::int64_t num_positions);
  void attention(const AttentionSizes& sizes);
  void feed_forward(const FeedForwardSizes& sizes);
  void experts(const ExpertSizes& sizes, const std::string& norm_before,
               const std::string& norm_behind, NormKind norm);
  void last_norm(NormKind norm, std::int64_t width);
  // With `has_loss`, the loss covers the tensor-parallel rank's own logits, otherwise the logits of
  // all ranks.
  void head(std::int64_t vocab_size, std::int64_t width, bool capped, bool has_loss);
  void head_by_blocks(std::int64_t vocab_size, std::int64_t width);

  void give(LayerInfo& layer) const;

 private:
  // Bytes per token of a fused half block.
  struct FusedHalf {
    std::string name;
    // Model width, and width of temporary memory in the backward.
    std::int64_t hidden = 0, width = 0;
    bool norm_before = true, norm_behind = false;
    double until_input = 0, until_weight = 0, after_input = 0;
  };

  double stored(std::int64_t count) const { return stored_ * static_cast<double>(count); }
  double product(std::int64_t count) const { return product_ * static_cast<double>(count); }
  double casted_table(std::int64_t count) const { return product_ < 4 ? product(count) : 0.0; }
  double casted_weights(double count) const { return precision_.casts() ? product_ * count : 0.0; }
  double weight_gradient(double count) const;
  double gradient_and_copy(double count) const;

  Operator& add(std::vector<std::string> reads, std::string writes,
                std::vector<std::string> weights = {});
  Operator& linear(const std::string& name, const std::string& from, const std::string& to,
                   std::int64_t in, std::int64_t out);
  void norm(NormKind kind, const std::string& name, std::int64_t width, std::int64_t groups,
            const std::string& from, const std::string& to, bool of_products = false);
  void scaled_dot_products(const AttentionSizes& sizes);
  void plain_attention(const AttentionSizes& sizes);
  void fused_attention(const AttentionSizes& sizes);
  void plain_feed_forward(const FeedForwardSizes& sizes);
  void fused_feed_forward(const FeedForwardSizes& sizes);
  void fused_half(Operator& of, const FusedHalf& half);
  std::vector<std::string> weights_of(const std::vector<std::string>& modules) const;
  void residual(const std::string& from, double dropout, std::int64_t width, const std::string& x,
                const std::string& to);

  Precision precision_;
  double stored_, product_;
  std::vector<ParameterSpec> parameters_;
  std::set<std::string> divided_outputs_, divided_inputs_;
  LayerOperators operators_;
  ShapePolynomial entry_of_plain_attention_;
  mutable std::shared_ptr<const LayerOperators> made_;
  mutable LayerCost cost_;
};

struct LowRankPair {
  std::string name;
  std::int64_t rank = 0, in = 0, out = 0;
};
// Adds low-rank pairs (LoRA), which alone are trained.
LayerOperators with_low_rank(const LayerOperators& operators, const std::vector<LowRankPair>& pairs,
                             bool drops, const Precision& precision);

}  // namespace sluice::detail
