#include "job/run_inputs.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/printable.h"
#include "base/text.h"
#include "io/hf_shards.h"
#include "plan/families/nested.h"
#include "plan/lora/adapter_files.h"
#include "sluice/lora.h"

namespace sluice {
namespace {

constexpr std::size_t kShownNames = 5;

std::string folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string first_names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(kShownNames, names.size()); ++i) {
    shown.push_back(printable(names[i]));
  }
  const std::size_t rest = names.size() - shown.size();
  return join(shown, ", ") + (rest > 0 ? " and " + std::to_string(rest) + " more" : "");
}

TokenDataOptions data_options(const RunConfig& config, const ModelSpec& spec,
                              std::vector<std::string> files) {
  TokenDataOptions options;
  options.data = config.data;
  options.data.files = std::move(files);
  options.seq_len = config.training.seq_len;
  options.vocab_size = spec.vocab_size;
  options.seed = config.training.seed;
  options.model_directory = model_directory(config);
  options.model_family = spec.family;
  options.max_positions = spec.max_positions;
  return options;
}

}  // namespace

std::string model_directory(const RunConfig& config) {
  if (!config.model.path.empty()) return config.model.path;
  std::error_code unseen;
  if (std::filesystem::is_directory(config.model.config, unseen)) return config.model.config;
  return config.model.config.empty() ? "" : folder_of(config.model.config);
}

std::string source_directory(const RunConfig& config) {
  const std::string& tokenizer = config.data.tokenizer;
  if (!config.model.path.empty() || tokenizer == "auto" || tokenizer == "bytes")
    return model_directory(config);
  std::error_code unseen;
  if (std::filesystem::is_directory(tokenizer, unseen)) return tokenizer;
  return folder_of(tokenizer);
}

TokenDataOptions training_data_options(const RunConfig& config, const ModelSpec& spec) {
  TokenDataOptions options = data_options(config, spec, {});
  const std::vector<std::vector<std::string>> entries = expand_data_entries(config);
  for (const std::vector<std::string>& entry : entries) {
    options.data.files.insert(options.data.files.end(), entry.begin(), entry.end());
    if (!config.data.weights.empty())
      options.files_per_entry.push_back(static_cast<std::int64_t>(entry.size()));
  }
  return options;
}

TokenDataOptions evaluation_data_options(const RunConfig& config, const ModelSpec& spec) {
  TokenDataOptions options = training_data_options(config, spec);
  options.data.shuffle = false;
  options.data.weights.clear();
  return options;
}

TokenDataOptions validation_data_options(const RunConfig& config, const ModelSpec& spec) {
  TokenDataOptions options = data_options(config, spec, expand_validation_files(config));
  options.data.shuffle = false;
  options.data.weights.clear();
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
  // Of a whole the rest is no surprise: it is kept as it is (docs/hf-directories.md).
  if (!unused.empty() && !detail::is_part_of_a_whole(spec.config_text)) {
    weights.warning = counted(static_cast<std::int64_t>(unused.size()), "tensor") + " of " + path +
                      (unused.size() == 1 ? " is" : " are") +
                      " not used by the model: " + first_names(unused);
  }
  return weights;
}

}  // namespace sluice
