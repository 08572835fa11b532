#include "family/experts.h"

#include "base/format.h"

namespace sluice::detail {

std::string balance_value(const std::string& block) { return "load_balancing." + block; }

void name_experts(const ExpertsConfig& experts, std::int64_t hidden_size, OperatorList& operators) {
  const std::int64_t d = hidden_size, f = experts.intermediate_size;
  operators.matrix(experts.block + ".gate", experts.num_experts, d);
  for (std::int64_t i = 0; i < experts.num_experts; ++i) {
    const std::string expert = formatted("{}.experts.{}.", experts.block, i);
    operators.matrix(expert + experts.gate, f, d);
    operators.matrix(expert + experts.up, f, d);
    operators.matrix(expert + experts.down, d, f);
  }
}

ExpertSizes sizes_of(const ExpertsConfig& experts, std::int64_t hidden_size) {
  return {.block = experts.block,
          .gate = experts.gate,
          .up = experts.up,
          .down = experts.down,
          .hidden = hidden_size,
          .inner = experts.intermediate_size,
          .experts = experts.num_experts,
          .top_k = experts.top_k,
          .activation = experts.activation,
          .normalizes = experts.normalizes,
          .wide_weights = experts.wide_weights,
          .balances = experts.balance_coefficient.has_value()};
}

}  // namespace sluice::detail
