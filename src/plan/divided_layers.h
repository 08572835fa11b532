// Models whose layers are not divided among ranks.
// Thread-safety: pure functions.
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

// Throws Error(kUsage), with what cannot be divided and why, for slices of layers that have none.
inline void require_divided_layers(const ModelSpec& model, const TensorParallel& how) {
  if (how.num_slices() == 1) return;
  const std::vector<LayerInfo>& layers = model.layers;
  const auto of_adapter = [](const ParameterSpec& parameter) { return parameter.of_adapter; };
  const bool has_adapter = std::any_of(layers.begin(), layers.end(), [&](const LayerInfo& layer) {
    return std::any_of(layer.parameters.begin(), layer.parameters.end(), of_adapter);
  });
  const auto undivided = std::find_if(layers.begin(), layers.end(), [](const LayerInfo& layer) {
    return !layer.undivided.empty();
  });
  std::string what;
  if (model.graph) {
    what = "the layers of an exported graph are not divided among ranks yet";
  } else if (has_adapter) {
    what = "layers with adapters are not divided among ranks yet";
  } else if (undivided != layers.end()) {
    what = formatted("'{}' of '{}' is not divided among ranks, since {}", undivided->name,
                     model.family, undivided->undivided);
  }
  if (what.empty()) return;
  throw Error(ErrorKind::kUsage,
              {.what = what + ", and " + counted(how.num_slices(), "slice") + " are asked for",
               .where = "`tensor_parallel.degree`",
               .remedy = "leave it at 1, and the slices"});
}

}  // namespace sluice::detail
