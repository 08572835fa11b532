// Which parts of a block run as fused operators (src/ops), as far as the model decides it, and what
// these keep.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <set>

#include "plan/families/decoder_config.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

// Channels of a head that the kernels take.
inline constexpr std::int64_t kFusedHeadMultiple = 16;

// Entries of the vocabulary of which a head that computes the loss makes logits at once.
inline constexpr std::int64_t kLossBlock = 2048;

bool fuses_attention(const DecoderConfig& config);
bool fuses_feed_forward(const DecoderConfig& config);

// Leaves the operations of a half that fuses: FusedBytes counts apart what it keeps.
void keep_operations_alone(LayerCost& cost);

// Numbers a token, as src/ops/attention_block.cpp and feed_forward_block.cpp take them.
struct FusedAttention {
  std::int64_t hidden = 0, heads = 0, head_dim = 0;
  std::int64_t query_width = 0, key_width = 0;
  bool norm_before = true, norm_behind = false;
  std::int64_t head_norm_groups = 0;  // of queries and keys together; 0: no norms
};
struct FusedFeedForward {
  std::int64_t hidden = 0, inner = 0;
  bool is_gated = true;
  bool norm_before = true, norm_behind = false;
};

// Bytes of the fused halves of one block, beside what is left of it.
class FusedBytes {
 public:
  void add(const FusedAttention& attention);
  void add(const FusedFeedForward& feed_forward);
  // Replaces nothing: adds what the halves keep and need to the costs of a block; of a frozen one,
  // of which nothing is trained, too.
  void add_to(LayerCost& cost, LayerCost& frozen_cost) const;

 private:
  void add_half(std::int64_t hidden, bool norm_before, bool norm_behind);

  double inputs_ = 0, inputs_until_weight_ = 0, gradients_ = 0;  // tensors
  double until_input_ = 0, until_weight_ = 0, after_input_ = 0;
  double once_ = 0;     // sums of the weights of norms
  double scratch_ = 0;  // for each token of a sequence
  double fixed_scratch_ = 0;
  std::set<std::int64_t> running_;  // widths of what a backward takes for a moment
  double forward_ = 0;              // tensors while a half runs that keeps nothing
};

// A head that computes the loss by blocks of the vocabulary (Precision::loss_chunks).
void set_loss_by_blocks(std::int64_t vocab_size, std::int64_t width, LayerInfo& head);
bool computes_loss(const LayerInfo& layer);

// One norm by itself.
void add_fused_norm(std::int64_t hidden, LayerCost& cost);

}  // namespace sluice::detail
