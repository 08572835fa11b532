#include "job/run_inputs.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "base/text.h"
#include "sluice/lora.h"

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

TokenDataOptions token_data_options(const RunConfig& config, const ModelSpec& spec,
                                    std::vector<std::string> files) {
  TokenDataOptions options;
  options.data = config.data;
  options.data.files = std::move(files);
  options.seq_len = config.training.seq_len;
  options.vocab_size = spec.vocab_size;
  options.seed = config.training.seed;
  options.model_directory = config.model.path;
  return options;
}

OpenedWeights open_weights(const RunConfig& config, const ModelSpec& spec) {
  return config.model.path.empty() ? OpenedWeights() : open_weights_in(config.model.path, spec);
}

OpenedWeights open_weights_in(const std::string& path, const ModelSpec& spec) {
  OpenedWeights weights;
  weights.directory.emplace(path);
  const std::vector<std::string> unused =
      check_checkpoint(*weights.directory, without_adapter(spec));
  if (!unused.empty()) {
    weights.warning = counted(static_cast<std::int64_t>(unused.size()), "tensor") + " of " + path +
                      (unused.size() == 1 ? " is" : " are") +
                      " not used by the model: " + first_names(unused);
  }
  return weights;
}

}  // namespace sluice
