// Costs of the operators of built-in model families, for LibTorch's CPU operators and our fused
// ones (src/ops): operations, bytes saved for the backward, temporary memory. Sizes are of one
// tensor-parallel rank.
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
  kRms,         // normalizes x in the dtype of x, then multiplies by the weight
  kWideRms,     // like kRms, but computed in float32
  kRmsPlusOne,  // computed in float32, multiplies by 1 + weight
  kLayer,       // layer norm with a bias
};

struct ExpertSizes {
  std::string block;  // module names start with it: "{block}.gate" is the router
  std::string gate, up, down;
  std::int64_t hidden = 0, inner = 0, experts = 0, top_k = 0;
  Activation activation = Activation::kSilu;
  bool normalizes = false, wide_weights = false, balances = false;
};

// The attention half of a block, including norm and residual sum. Strings are parameter names, or
// "".
struct AttentionSizes {
  std::string norm_before, norm_behind, query_norm, key_norm;
  std::vector<std::string> projections;  // modules that project to q, k, v; or one for all
  std::string output;
  NormKind norm = NormKind::kRms;
  std::int64_t hidden = 0, heads = 0, head_dim = 0, query_width = 0, key_width = 0;
  std::int64_t rotary_dim = 0;
  bool wide_rotary = false;    // compute the rotation in float32
  bool norms_heads = false;    // normalize each head of q and k separately
  bool copies_values = false;  // q, k, v are copied out of the joint projection instead of viewed
  bool capped = false;         // caps scores, which are then stored unless fused
  double dropout = 0, residual_dropout = 0;
  bool fused = false;
};

// The feed-forward half of a block. Computes last(activation(first(x))), or with a gate
// last(activation(gate(x)) * up(x)).
struct FeedForwardSizes {
  std::string norm_before, norm_behind;
  std::vector<std::string> projections;  // modules gate and up; one for both; or `first`
  std::string last;
  std::string reads = "h";  // "x" for the block's input, "h" for the attention's result
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
  // divide_inputs(), every rank has the whole bias and computes a partial sum. `sections` and
  // `units` are as in ParameterSplit.
  void divide_outputs(const std::string& name, std::int64_t units = 0,
                      std::vector<std::int64_t> sections = {}, bool transposed = false);
  void divide_inputs(const std::string& name, std::int64_t units = 0, bool transposed = false);

  // The position table is not divided over tensor-parallel ranks.
  void embedding(std::int64_t rows, std::int64_t width, double dropout, bool scaled,
                 std::int64_t num_positions);
  void attention(const AttentionSizes& sizes);
  void feed_forward(const FeedForwardSizes& sizes);
  void experts(const ExpertSizes& sizes, const std::string& norm_before,
               const std::string& norm_behind, NormKind norm);
  void last_norm(NormKind norm, std::int64_t width);
  // With `has_loss`, each tensor-parallel rank computes the loss of its own logits. Otherwise every
  // rank gathers all logits.
  void head(std::int64_t vocab_size, std::int64_t width, bool capped, bool has_loss);
  void head_by_blocks(std::int64_t vocab_size, std::int64_t width);

  void give(LayerInfo& layer) const;

 private:
  // Bytes per token of a fused half of a block.
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
// Adds LoRA pairs. Only their weights are trained. `pairs` name modules of the layer.
LayerOperators with_low_rank(const LayerOperators& operators, const std::vector<LowRankPair>& pairs,
                             bool drops, const Precision& precision);

}  // namespace sluice::detail
