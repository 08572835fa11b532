// The options of the library that a configuration says: of data, layers and the pipeline; the
// batches that data is for the model.
// Thread-safety: pure functions, but for a look at what paths lead to.
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

// The folder whose files go along with the weights: model.path; of a model.config the folder of
// data.tokenizer where that names one, else its own.
std::string source_directory(const RunConfig& config);

// No files: what decides the tokens of a text that is given.
TokenDataOptions text_options(const RunConfig& config, const ModelSpec& spec);
// data.files, to train on.
TokenDataOptions training_data_options(const RunConfig& config, const ModelSpec& spec);
// data.files and validation.files in their order, each sequence once in it.
TokenDataOptions evaluation_data_options(const RunConfig& config, const ModelSpec& spec);
TokenDataOptions validation_data_options(const RunConfig& config, const ModelSpec& spec);
// The data; errors name keys, but what `name_of` has another name for.
TokenData open_data(
    const RunConfig& config, TokenDataOptions options,
    const NameOfOption& name_of = [](std::string_view) { return ""; });

// How much the model counts in the rows of a microbatch, where that is neither labels nor rows;
// else empty. Makes a model of its own.
MicrobatchCount count_by_model(const RunConfig& config, const ModelSpec& spec);

// The modules of the plan's model.
Model run_model(const RunConfig& config, const ModelSpec& spec,
                const std::optional<Adapter>& adapter);
// model.dtype, and the adapter of the run.
LayerOptions layer_options(const RunConfig& config, const std::optional<Adapter>& adapter);
// Whether the model runs on fused operators.
bool uses_fused(const RunConfig& config, const ModelSpec& model);
// The operators by which the model runs on the CPU: "fused, avx512, own products", the kernels'
// instruction set and whose matrix products, and whether the loss is computed by blocks; or "plain,
// avx512": AdamW is one of the kernels all the same. A function of model, settings and processor
// alone.
std::string kernels_text(const RunConfig& config, const ModelSpec& model);

// Options of a Pipeline, without observers and without weights: these are loaded or drawn by who
// has them.
RunOptions run_options(const RunConfig& config);

}  // namespace sluice
