#include "command/inputs.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "base/format.h"
#include "base/printable.h"
#include "base/text.h"
#include "io/hf_shards.h"
#include "kind/adapter_files.h"
#include "kind/model_kind.h"
#include "model/model_maker.h"
#include "sluice/lora.h"

namespace sluice {
namespace {

std::string folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::optional<at::ScalarType> autocast_type(const RunConfig& config) {
  if (config.training.mixed_precision == MixedPrecision::kBfloat16) return at::kBFloat16;
  return std::nullopt;
}

}  // namespace

std::string source_directory(const RunConfig& config) {
  const std::string& tokenizer = config.data.tokenizer;
  if (!config.model.path.empty() || tokenizer == "auto" || tokenizer == "bytes")
    return model_directory(config);
  std::error_code unseen;
  if (std::filesystem::is_directory(tokenizer, unseen)) return tokenizer;
  return folder_of(tokenizer);
}

LayerOptions layer_options(const RunConfig& config, const std::optional<Adapter>& adapter) {
  LayerOptions options;
  options.adapter = adapter;
  options.fused = config.training.fused == FusedOperators::kAuto;
  if (config.model.dtype == ParameterType::kBfloat16) options.dtype = at::kBFloat16;
  if (config.model.dtype == ParameterType::kFloat16) options.dtype = at::kHalf;
  return options;
}

Model run_model(const RunConfig& config, const ModelSpec& spec,
                const std::optional<Adapter>& adapter) {
  return maker_of(config.kinds, spec).model(spec, layer_options(config, adapter));
}

MicrobatchCount count_by_model(const RunConfig& config, const ModelSpec& spec) {
  if (!spec.source->row_needs().counts_by_model) return {};
  const ModelMaker& maker = maker_of(config.kinds, spec);
  const auto model = std::make_shared<const Model>(run_model(config, spec, std::nullopt));
  return [model, &maker](const TokenRows& rows) { return maker.count(rows, *model); };
}

bool uses_fused(const RunConfig& config, const ModelSpec& model) {
  const bool has_adapter = !config.model.adapter.empty() || config.lora.rank > 0;
  return maker_of(config.kinds, model).has_fused() &&
         config.training.fused == FusedOperators::kAuto &&
         config.model.dtype == ParameterType::kFloat32 &&
         config.training.mixed_precision == MixedPrecision::kNone && !has_adapter;
}

std::string kernels_text(const RunConfig& config, const ModelSpec& model) {
  return maker_of(config.kinds, model).kernels(model, uses_fused(config, model));
}

RunOptions run_options(const RunConfig& config) {
  RunOptions options;
  options.seed = static_cast<std::uint64_t>(config.training.seed);
  options.scale = config.parallelism.scale_grads;
  options.autocast = autocast_type(config);
  options.weights = InitialWeights::kNone;
  return options;
}

}  // namespace sluice
