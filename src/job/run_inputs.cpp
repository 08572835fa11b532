#include "job/run_inputs.h"

#include <algorithm>

#include "base/printable.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr std::size_t kShownNames = 5;

std::string first_names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(kShownNames, names.size()); ++i) {
    shown.push_back(printable(names[i]));
  }
  const std::size_t rest = names.size() - shown.size();
  return join(shown, ", ") + (rest > 0 ? " and " + std::to_string(rest) + " more" : "");
}

}  // namespace

TokenDataOptions token_data_options(const RunConfig& config, const ModelSpec& spec) {
  TokenDataOptions options;
  options.data = config.data;
  options.data.files = expand_data_files(config);
  options.seq_len = config.training.seq_len;
  options.vocab_size = spec.vocab_size;
  options.seed = config.training.seed;
  options.model_directory = config.model.path;
  return options;
}

OpenedWeights open_weights(const RunConfig& config, const ModelSpec& spec) {
  OpenedWeights weights;
  if (config.model.path.empty()) return weights;
  weights.directory.emplace(config.model.path);
  const std::vector<std::string> unused = check_checkpoint(*weights.directory, spec);
  if (!unused.empty()) {
    weights.warning = counted(static_cast<std::int64_t>(unused.size()), "tensor") + " of " +
                      config.model.path + (unused.size() == 1 ? " is" : " are") +
                      " not used by the model: " + first_names(unused);
  }
  return weights;
}

}  // namespace sluice
