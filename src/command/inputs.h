// Translates a configuration into options for data, layers and the pipeline.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/option_names.h"
#include "config/run_config.h"
#include "sluice/causal_lm.h"
#include "sluice/data.h"
#include "sluice/model_spec.h"
#include "sluice/parts/run_options.h"

namespace sluice {

// The folder whose files are copied next to saved weights: model.path or, with model.config, the
// folder of data.tokenizer or of the configuration file.
std::string source_directory(const RunConfig& config);

// For a text that is passed directly. Sets no files.
TokenDataOptions text_options(const RunConfig& config, const ModelSpec& spec);
TokenDataOptions training_data_options(const RunConfig& config, const ModelSpec& spec);
// Reads data.files in order, each sequence once.
TokenDataOptions evaluation_data_options(const RunConfig& config, const ModelSpec& spec);
TokenDataOptions validation_data_options(const RunConfig& config, const ModelSpec& spec);
// Errors name keys, unless `name_of` returns another name.
TokenData open_data(
    const RunConfig& config, TokenDataOptions options,
    const NameOfOption& name_of = [](std::string_view) { return ""; });

// Counts a microbatch if the model uses a unit of its own instead of labels or rows. Otherwise
// empty. The function builds its own model.
MicrobatchCount count_by_model(const RunConfig& config, const ModelSpec& spec);

Model run_model(const RunConfig& config, const ModelSpec& spec,
                const std::optional<Adapter>& adapter);
LayerOptions layer_options(const RunConfig& config, const std::optional<Adapter>& adapter);
bool uses_fused(const RunConfig& config, const ModelSpec& model);
// Describes the CPU operators, such as "fused, avx512, own products" or "plain, avx512": the
// instruction set, whose matrix products, and whether the loss is computed by blocks. AdamW always
// uses our kernels, so plain operators have an instruction set too. Depends only on model, settings
// and processor.
std::string kernels_text(const RunConfig& config, const ModelSpec& model);

// Has no observers and no weights. The caller adds them.
RunOptions run_options(const RunConfig& config);

}  // namespace sluice
