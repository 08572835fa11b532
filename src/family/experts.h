// Mixture of experts instead of a feed-forward. A router sends each token to top_k gated MLPs and
// sums their weighted results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "family/operators.h"

namespace sluice::detail {

struct ExpertsConfig {
  // Modules within the block: "{block}.gate" is the router, "{block}.experts.N.{gate}" an expert's
  // gate.
  std::string block = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::int64_t num_experts = 0, top_k = 0;
  std::int64_t intermediate_size = 0;  // of one expert
  Activation activation = Activation::kSilu;
  bool normalizes = false;    // a token's weights sum to 1
  bool wide_weights = false;  // router weights stay float32 for half-precision experts
  // Factor of the mean load-balancing loss, if any.
  std::optional<double> balance_coefficient;
};

// Name of a block's load-balancing loss. "*" matches all blocks.
std::string balance_value(const std::string& block = "*");

struct BlockExperts {
  ExpertsConfig experts;
  std::vector<bool> has_experts;  // by block; the others have a gated MLP
};

void name_experts(const ExpertsConfig& experts, std::int64_t hidden_size, OperatorList& operators);
ExpertSizes sizes_of(const ExpertsConfig& experts, std::int64_t hidden_size);

}  // namespace sluice::detail
