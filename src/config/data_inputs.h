// Options of the data sets that a configuration names.
#pragma once

#include <string_view>

#include "base/option_names.h"
#include "config/run_config.h"
#include "sluice/data.h"
#include "sluice/model_spec.h"

namespace sluice {

TokenDataOptions text_options(const RunConfig& config, const ModelSpec& spec);
TokenDataOptions training_data_options(const RunConfig& config, const ModelSpec& spec);
TokenDataOptions evaluation_data_options(const RunConfig& config, const ModelSpec& spec);
TokenDataOptions validation_data_options(const RunConfig& config, const ModelSpec& spec);
// Error messages name configuration keys, unless `name_of` returns another name for an option.
TokenData open_data(
    const RunConfig& config, TokenDataOptions options,
    const NameOfOption& name_of = [](std::string_view) { return ""; });

}  // namespace sluice
