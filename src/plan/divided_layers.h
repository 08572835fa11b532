#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"
#include "sluice/model_spec.h"
#include "sluice/options.h"

namespace sluice::detail {

// Returns "" if the model supports tensor parallelism.
inline std::string reason_not_divided(const ModelSpec& model) {
  const std::vector<LayerInfo>& layers = model.layers;
  const auto of_adapter = [](const ParameterSpec& parameter) { return parameter.of_adapter; };
  const bool has_adapter = std::any_of(layers.begin(), layers.end(), [&](const LayerInfo& layer) {
    return std::any_of(layer.parameters.begin(), layer.parameters.end(), of_adapter);
  });
  if (has_adapter) return "layers with adapters are not divided among ranks yet";
  const auto undivided = std::find_if(layers.begin(), layers.end(), [](const LayerInfo& layer) {
    return !layer.undivided.empty();
  });
  if (undivided == layers.end()) return {};
  return formatted("'{}' of '{}' is not divided among ranks, since {}", undivided->name,
                   model.family, undivided->undivided);
}

inline void require_divided_layers(const ModelSpec& model, const TensorParallel& how) {
  if (how.num_slices() == 1) return;
  const std::string reason = reason_not_divided(model);
  if (reason.empty()) return;
  throw Error(ErrorKind::kUsage,
              {.what = reason + ", but " + counted(how.num_slices(), "slice") + " are requested",
               .where = "`tensor_parallel.degree`",
               .remedy = "leave `tensor_parallel.degree` and `tensor_parallel.slices` at 1"});
}

}  // namespace sluice::detail
