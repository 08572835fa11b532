#include "config/data_inputs.h"

#include <utility>

#include "config/option_keys.h"
#include "kind/model_kind.h"
#include "sluice/error.h"

namespace sluice {
namespace {

TokenDataOptions data_options(const RunConfig& config, const ModelSpec& spec,
                              std::vector<std::string> files) {
  TokenDataOptions options;
  options.data = config.data;
  options.data.files = std::move(files);
  options.seq_len = config.training.seq_len;
  options.seed = config.training.seed;
  options.model_directory = model_directory(config);
  options.model_family = spec.family;
  options.max_positions = spec.max_positions;
  options.microbatch_size = config.training.microbatch_size;
  set_row_needs(spec.source->row_needs(), options);
  return options;
}

void set_entries(const RunConfig& config, TokenDataOptions& options) {
  const std::vector<std::vector<std::string>> entries = expand_data_entries(config);
  for (const std::vector<std::string>& entry : entries) {
    options.data.files.insert(options.data.files.end(), entry.begin(), entry.end());
    if (!config.data.weights.empty())
      options.files_per_entry.push_back(static_cast<std::int64_t>(entry.size()));
  }
}

}  // namespace

TokenDataOptions text_options(const RunConfig& config, const ModelSpec& spec) {
  return data_options(config, spec, {});
}

TokenDataOptions training_data_options(const RunConfig& config, const ModelSpec& spec) {
  TokenDataOptions options = data_options(config, spec, {});
  set_entries(config, options);
  options.epochs = config.training.epochs;
  options.held_out = config.validation.split;
  return options;
}

TokenDataOptions evaluation_data_options(const RunConfig& config, const ModelSpec& spec) {
  TokenDataOptions options = data_options(config, spec, {});
  set_entries(config, options);
  options.data.shuffle = false;
  options.data.weights.clear();
  return options;
}

TokenDataOptions validation_data_options(const RunConfig& config, const ModelSpec& spec) {
  if (config.validation.split > 0) {
    TokenDataOptions options = evaluation_data_options(config, spec);
    options.held_out = config.validation.split;
    options.part = DataPart::kHeldOut;
    return options;
  }
  TokenDataOptions options = data_options(config, spec, expand_validation_files(config));
  options.data.shuffle = false;
  options.data.weights.clear();
  return options;
}

TokenData open_data(const RunConfig& config, TokenDataOptions options,
                    const NameOfOption& name_of) {
  try {
    return TokenData(std::move(options));
  } catch (const Error& error) {
    throw detail::with_places(config, with_names(error, name_of));
  }
}

}  // namespace sluice
