#pragma once

#include <optional>
#include <string>

#include "config/run_config.h"
#include "sluice/model_spec.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {

struct OpenedWeights {
  std::optional<HfDirectory> directory;  // none: weights are random or in the graph's archive
  bool in_archive = false;               // Model::initialization loads them
  bool are_given() const { return directory.has_value() || in_archive; }
  std::string warning;
};
OpenedWeights open_weights(const RunConfig& config, const ModelSpec& spec);
OpenedWeights open_weights_in(const std::string& path, const ModelSpec& spec);

// Throws Error(kCheckpoint) if `adapter` is a checkpoint trained on other weights than `base`. PEFT
// directories do not identify their base.
void require_base_of_run(const std::string& adapter, const ModelSpec& spec,
                         const OpenedWeights& base);
// Throws Error(kInput) if the directory `base` cannot be read.
void require_base_of_run(const std::string& adapter, const std::string& base);

}  // namespace sluice
