// Opens and checks the weights that a configuration names.
#pragma once

#include <optional>
#include <string>

#include "config/run_config.h"
#include "sluice/model_spec.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {

struct OpenedWeights {
  std::optional<HfDirectory> directory;  // none: random weights, or those in the graph's archive
  bool in_archive = false;               // Model::initialization provides them
  bool are_given() const { return directory.has_value() || in_archive; }
  std::string warning;  // names tensors that the model does not use, or ""
};
// Opens model.path and compares its headers with the model. Opens nothing for model.config alone.
OpenedWeights open_weights(const RunConfig& config, const ModelSpec& spec);
OpenedWeights open_weights_in(const std::string& path, const ModelSpec& spec);

// Throws Error(kCheckpoint) if `adapter` is a checkpoint that was trained on other base weights.
// Other PEFT directories do not identify their base weights.
void require_base_of_run(const std::string& adapter, const ModelSpec& spec,
                         const OpenedWeights& base);
// `base` is a Hugging Face directory. Throws Error(kInput) if it cannot be read.
void require_base_of_run(const std::string& adapter, const std::string& base);

}  // namespace sluice
