// What a configuration names, opened and checked: data options, weights.
// Thread-safety: pure functions of the files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/data.h"
#include "sluice/model_spec.h"
#include "sluice/parts/hf_directory.h"
#include "sluice/run_config.h"

namespace sluice {

// Where the model's tokenizer lies: model.path, or the folder of model.config.
std::string model_directory(const RunConfig& config);
// Whose files go along with the weights: model.path; of a model.config the folder of
// data.tokenizer where that names one, else its own.
std::string source_directory(const RunConfig& config);

// Of data.files, to train on.
TokenDataOptions training_data_options(const RunConfig& config, const ModelSpec& spec);
// data.files and validation.files in their order, each sequence once in it.
TokenDataOptions evaluation_data_options(const RunConfig& config, const ModelSpec& spec);
TokenDataOptions validation_data_options(const RunConfig& config, const ModelSpec& spec);

struct OpenedWeights {
  std::optional<HfDirectory> directory;  // none: they are drawn
  std::string warning;  // names tensors that the model has no place for; "" for none
};
// The checkpoint of model.path, its headers compared with the model (check_checkpoint); nothing
// with model.config alone.
OpenedWeights open_weights(const RunConfig& config, const ModelSpec& spec);
// The same of any directory.
OpenedWeights open_weights_in(const std::string& path, const ModelSpec& spec);

}  // namespace sluice
