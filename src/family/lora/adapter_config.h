// adapter_config.json as PEFT means it: what of it decides an adapter.
//
// Owns: the fields, and which of them are refused. Does not own: tensors (read_adapter.cpp).
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "family/lora/linear_layers.h"
#include "family/lora/module_expression.h"

namespace sluice::detail {

// Modules as PEFT chooses them: by a list of the last parts of names, or of whole names; by a
// regular expression of whole names; all linear layers but the head.
struct ModuleChoice {
  std::vector<std::string> ends;
  std::optional<ModuleExpression> expression;
  bool all_linear = false;
};

struct AdapterConfig {
  std::int64_t rank = 8;
  double alpha = 8, dropout = 0;
  bool rank_stabilized = false;
  ModuleChoice targets, excluded;  // target_modules, exclude_modules
  // By the ends of names.
  std::vector<std::pair<std::string, std::int64_t>> rank_of;
  std::vector<std::pair<std::string, double>> alpha_of;
  std::string base;  // base_model_name_or_path
  std::string file;

  // Throw Error(kInput) where two patterns say different things of the module.
  std::int64_t rank_at(const std::string& module) const;
  double alpha_at(const std::string& module) const;
  // True if PEFT gives the layer an adapter. Throws Error(kInput) where an expression cannot be
  // matched.
  bool is_targeted(const LinearLayer& layer) const;
  bool is_excluded(const LinearLayer& layer) const;
};

// Behind the name of a layer whose own weight PEFT stores beside its adapter: the output layer's.
inline constexpr const char* kBaseLayerEnding = ".base_layer.weight";
inline constexpr std::int64_t kMaxLoraRank = 1 << 20;
inline constexpr std::size_t kMaxAdapterConfigBytes = std::size_t{4} << 20;

// Throws Error(kInput) naming file and field.
AdapterConfig parse_adapter_config(const std::string& text, const std::string& file);
AdapterConfig read_adapter_config(const std::string& directory);

}  // namespace sluice::detail
