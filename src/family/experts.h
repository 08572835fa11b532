// A mixture of experts, which replaces a block's feed-forward. A router sends each token to top_k
// experts (gated MLPs). Their results are summed with the router's weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "family/operators.h"

namespace sluice::detail {

struct ExpertsConfig {
  // Module names within the block. Experts have the weights "{block}.experts.N.{gate}", the router
  // "{block}.gate".
  std::string block = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::int64_t num_experts = 0, top_k = 0;
  std::int64_t intermediate_size = 0;  // inner size of one expert
  Activation activation = Activation::kSilu;
  bool normalizes = false;    // normalize a token's top_k weights to sum 1
  bool wide_weights = false;  // keep the router's weights float32 if experts are half precision
  // Factor of the mean load-balancing loss. Unset: no such loss.
  std::optional<double> balance_coefficient;
};

// Returns the value name of a block's load-balancing loss. "*" matches all blocks.
std::string balance_value(const std::string& block = "*");

struct BlockExperts {
  ExpertsConfig experts;
  std::vector<bool> has_experts;  // one flag per block; blocks without experts have a gated MLP
};

void name_experts(const ExpertsConfig& experts, std::int64_t hidden_size, OperatorList& operators);
ExpertSizes sizes_of(const ExpertsConfig& experts, std::int64_t hidden_size);

}  // namespace sluice::detail
