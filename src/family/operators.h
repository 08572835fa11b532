// The operators that layers are lists of: operations, bytes that each keeps for its backward and
// needs while it runs, of LibTorch's on the CPU and of ours (src/ops).
//
// Owns: all that is known of memory and operations of an operator; which of them are fused.
// Does not own: the sum over a layer, for whatever trains (plan/operator_costs.h); layers of a
// family (decoder_model.h, gpt2.h, ...). Sizes are those of the slice of a rank.
// Thread-safety: values, pure functions.
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
  kRms,         // the normalized x, in the type of x, times the weight
  kWideRms,     // the same in float32
  kRmsPlusOne,  // in float32, times 1 + the weight
  kLayer,       // with a bias
};

// Router and experts in place of a feed-forward: a router gives every token to top_k of the
// experts, each a gated MLP.
struct ExpertSizes {
  std::string block;           // before the names of the router, "gate", and of "experts"
  std::string gate, up, down;  // matrices of an expert
  std::int64_t hidden = 0, inner = 0, experts = 0, top_k = 0;
  Activation activation = Activation::kSilu;
  bool normalizes = false, wide_weights = false, balances = false;
};

// Attention of a block, from its norm to the sum with what entered. Norms and matrices are names of
// the block's parameters; "": there is none.
struct AttentionSizes {
  std::string norm_before, norm_behind, query_norm, key_norm;
  std::vector<std::string> projections;  // projections of queries, keys, values, or of all three
  std::string output;
  NormKind norm = NormKind::kRms;
  std::int64_t hidden = 0, heads = 0, head_dim = 0, query_width = 0, key_width = 0;
  std::int64_t rotary_dim = 0;  // channels of a head that are turned; 0: none
  bool wide_rotary = false;     // in float32
  bool norms_heads = false;     // norms of queries and keys: each head by itself
  bool copies_values = false;   // queries, keys and values of one matrix are copied; else they are
                                // views of its result
  bool capped = false;          // scores, which are then written down where it is not fused
  double dropout = 0, residual_dropout = 0;
  bool fused = false;
};

// The feed-forward half behind attention: last(activation(first(x))), or last(activation(gate(x)) *
// up(x)).
struct FeedForwardSizes {
  std::string norm_before, norm_behind;
  std::vector<std::string> projections;  // gate and up, one for both, or the first
  std::string last;
  std::string reads = "h";  // "x": what attention reads
  NormKind norm = NormKind::kRms;
  Activation activation = Activation::kSilu;
  std::int64_t hidden = 0, inner = 0;
  bool gated = true;
  double residual_dropout = 0;
  bool fused = false;
};

// The operators of a layer and its parameters, in the order of the module.
class OperatorList {
 public:
  explicit OperatorList(const Precision& precision);

  // True where everything that can be fused is.
  bool fuses() const { return precision_.fuses(); }

  // Parameters: [rows, columns], and a bias as long as the products are; [size].
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns, bool bias = false,
              bool transposed = false);
  void vector(const std::string& name, std::int64_t size, bool bias = false);
  // Ranks that share the layer divide what a matrix makes, and its bias: columns of its product;
  // sections and units as in ParameterSplit. Or what it takes, and its products are partial sums:
  // then all have the bias.
  void divide_outputs(const std::string& name, std::int64_t units = 0,
                      std::vector<std::int64_t> sections = {}, bool transposed = false);
  void divide_inputs(const std::string& name, std::int64_t units = 0, bool transposed = false);

  // num_positions: rows of a table of positions, which is whole on every rank; 0: there is none.
  void embedding(std::int64_t rows, std::int64_t width, double dropout, bool scaled,
                 std::int64_t num_positions);
  void attention(const AttentionSizes& sizes);
  void feed_forward(const FeedForwardSizes& sizes);
  void experts(const ExpertSizes& sizes, const std::string& norm_before,
               const std::string& norm_behind, NormKind norm);
  // The norm before a head, whose input is counted here.
  void last_norm(NormKind norm, std::int64_t width);
  // logits and their loss; has_loss: of its own logits, else of those of all ranks.
  void head(std::int64_t vocab_size, std::int64_t width, bool capped, bool has_loss);
  // head and loss at once, by blocks of the vocabulary.
  void head_by_blocks(std::int64_t vocab_size, std::int64_t width);

  // Gives the layer its parameters, operators and cost.
  void give(LayerInfo& layer) const;

 private:
  // Bytes a token of a half of a block that is one node (src/ops).
  struct FusedHalf {
    std::string name;
    std::int64_t hidden = 0, width = 0;  // width: of what its backward takes for a moment
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
  std::set<std::string> divided_outputs_, divided_inputs_;  // matrices
  LayerOperators operators_;
  ShapePolynomial entry_of_plain_attention_;
  mutable std::shared_ptr<const LayerOperators> made_;
  mutable LayerCost cost_;
};

// The same with a low-rank pair beside some of its matrices, the pair alone being trained.
// adapted: matrices by their names in the layer.
struct LowRankPair {
  std::string name;
  std::int64_t rank = 0, in = 0, out = 0;
};
LayerOperators with_low_rank(const LayerOperators& operators, const std::vector<LowRankPair>& pairs,
                             bool drops, const Precision& precision);

}  // namespace sluice::detail
