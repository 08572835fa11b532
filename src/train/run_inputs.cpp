#include "train/run_inputs.h"

#include <iostream>

#include "base/text.h"

namespace sluice {

TokenDataOptions token_data_options(const RunConfig& config, const ModelSpec& spec) {
  TokenDataOptions options;
  options.data = config.data;
  options.data.files = expand_data_files(config);
  options.seq_len = config.training.seq_len;
  options.vocab_size = spec.config.vocab_size;
  options.seed = config.training.seed;
  options.model_directory = config.model.path;
  return options;
}

std::optional<HfDirectory> open_weights(const RunConfig& config, const ModelSpec& spec) {
  if (config.model.path.empty()) return std::nullopt;
  HfDirectory directory(config.model.path);
  const std::vector<std::string> unused = check_checkpoint(directory, spec);
  if (!unused.empty()) {
    std::cerr << "sluice: warning: " << unused.size() << " tensors of " << config.model.path
              << " are not used by the model: " << join(unused, ", ") << "\n";
  }
  return directory;
}

}  // namespace sluice
