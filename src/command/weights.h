// Weights that a configuration names, opened and checked.
// Thread-safety: pure functions of the files.
#pragma once

#include <optional>
#include <string>

#include "config/run_config.h"
#include "sluice/model_spec.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {

struct OpenedWeights {
  std::optional<HfDirectory> directory;  // none: they are drawn, or of the graph's archive
  bool in_archive = false;               // Model::initialization has them
  bool are_given() const { return directory.has_value() || in_archive; }
  std::string warning;  // names tensors that the model has no place for; "" for none
};
// The checkpoint of model.path, its headers compared with the model (check_checkpoint); nothing
// with model.config alone.
OpenedWeights open_weights(const RunConfig& config, const ModelSpec& spec);
// The same of any directory.
OpenedWeights open_weights_in(const std::string& path, const ModelSpec& spec);

// Throws Error(kCheckpoint) when `adapter` is a checkpoint of a run that started from another model
// than these weights. A PEFT directory that is not a checkpoint does not name its model.
void require_base_of_run(const std::string& adapter, const ModelSpec& spec,
                         const OpenedWeights& base);
// The same of the Hugging Face directory `base`. Throws Error(kInput) where it cannot be read.
void require_base_of_run(const std::string& adapter, const std::string& base);

}  // namespace sluice
