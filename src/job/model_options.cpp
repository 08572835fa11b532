#include "job/model_options.h"

#include "ops/kernels/kernels.h"
#include "ops/products.h"
#include "plan/families/fused.h"

namespace sluice {

LayerOptions layer_options(const RunConfig& config, const std::optional<Adapter>& adapter) {
  LayerOptions options;
  options.adapter = adapter;
  options.fused = config.training.fused == FusedOperators::kAuto;
  if (config.model.dtype == ParameterType::kBfloat16) options.dtype = at::kBFloat16;
  if (config.model.dtype == ParameterType::kFloat16) options.dtype = at::kHalf;
  return options;
}

std::string kernels_text(const RunConfig& config, const ModelSpec& model) {
  const bool has_adapter = !config.model.adapter.empty() || config.lora.rank > 0;
  if (config.training.fused != FusedOperators::kAuto ||
      config.model.dtype != ParameterType::kFloat32 ||
      config.training.mixed_precision != MixedPrecision::kNone || has_adapter)
    return "plain, " + std::string(ops::kernels().name);
  return "fused, " + std::string(ops::kernels().name) + ", " + ops::products_name() +
         (detail::computes_loss(model.layers.back()) ? ", loss by blocks" : "");
}

std::optional<at::ScalarType> autocast_type(const RunConfig& config) {
  if (config.training.mixed_precision == MixedPrecision::kBfloat16) return at::kBFloat16;
  return std::nullopt;
}

}  // namespace sluice
