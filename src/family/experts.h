// Mixture of experts in place of a block's feed-forward: a router gives every token to top_k of the
// experts, each a gated MLP, and weighs what these return.
//
// Owns: settings that the families share, names and shapes of router and experts.
// Does not own: the choice of blocks with experts (moe.h), modules (src/model/experts.h).
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "family/operators.h"

namespace sluice::detail {

struct ExpertsConfig {
  // Inside the block: "{block}.gate", "{block}.experts.N.{gate}", of up, of down.
  std::string block = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::int64_t num_experts = 0, top_k = 0;
  std::int64_t intermediate_size = 0;  // intermediate size of one expert
  Activation activation = Activation::kSilu;
  bool normalizes = false;    // the weights of a token's experts add up to 1
  bool wide_weights = false;  // they stay float32 beside experts of a half type
  // The weight of the mean of the blocks' load balancing losses in the loss; none: there are none.
  std::optional<double> balance_coefficient;
};

// The load balancing loss of a block writes this value; as a pattern, of all.
std::string balance_value(const std::string& block = "*");

// The experts of a model and the blocks that have them.
struct BlockExperts {
  ExpertsConfig experts;
  std::vector<bool> has_experts;  // by block; those without have the decoder\'s gated MLP
};

void name_experts(const ExpertsConfig& experts, std::int64_t hidden_size, OperatorList& operators);
ExpertSizes sizes_of(const ExpertsConfig& experts, std::int64_t hidden_size);

}  // namespace sluice::detail
