#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "family/lora/linear_layers.h"
#include "family/lora/module_expression.h"

namespace sluice::detail {

// Selects modules like PEFT: by ends of names, by an expression for whole names, or all linear
// layers except the head.
struct ModuleChoice {
  std::vector<std::string> ends;
  std::optional<ModuleExpression> expression;
  bool all_linear = false;
};

struct AdapterConfig {
  std::int64_t rank = 8;
  double alpha = 8, dropout = 0;
  bool rank_stabilized = false;
  ModuleChoice targets, excluded;  // from target_modules and exclude_modules
  // Ranks of single modules, keyed by the end of their name.
  std::vector<std::pair<std::string, std::int64_t>> rank_of;
  std::vector<std::pair<std::string, double>> alpha_of;
  std::string base;  // base_model_name_or_path
  std::string file;

  // These throw Error(kInput) if two patterns disagree.
  std::int64_t rank_at(const std::string& module) const;
  double alpha_at(const std::string& module) const;
  // Throws Error(kInput) if matching takes too long.
  bool is_targeted(const LinearLayer& layer) const;
  bool is_excluded(const LinearLayer& layer) const;
};

inline constexpr std::int64_t kMaxLoraRank = 1 << 20;
inline constexpr std::size_t kMaxAdapterConfigBytes = std::size_t{4} << 20;

AdapterConfig parse_adapter_config(const std::string& text, const std::string& file);
AdapterConfig read_adapter_config(const std::string& directory);

}  // namespace sluice::detail
