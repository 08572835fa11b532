#include "job/model_options.h"

namespace sluice {

LayerOptions layer_options(const RunConfig& config, const std::optional<Adapter>& adapter) {
  LayerOptions options;
  options.adapter = adapter;
  options.fused = config.training.fused == "auto";
  if (config.model.dtype == "bfloat16") options.dtype = at::kBFloat16;
  if (config.model.dtype == "float16") options.dtype = at::kHalf;
  return options;
}

std::optional<at::ScalarType> autocast_type(const RunConfig& config) {
  if (config.training.mixed_precision == "bfloat16") return at::kBFloat16;
  return std::nullopt;
}

}  // namespace sluice
