// Models whose layers are not divided among ranks.
// Thread-safety: pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"
#include "sluice/plan.h"

namespace sluice::detail {

// Throws Error(kUsage), naming the model, for slices of layers that have none.
inline void require_divided_layers(const Plan& plan) {
  static constexpr std::array<std::string_view, 3> kWhole = {"gpt2", "olmo2", "olmoe"};
  const TensorParallel& how = plan.tensor_parallel;
  if (how.num_slices() == 1) return;
  const auto of_adapter = [](const ParameterSpec& parameter) { return parameter.of_adapter; };
  const bool has_adapter =
      std::any_of(plan.model.layers.begin(), plan.model.layers.end(), [&](const LayerInfo& layer) {
        return std::any_of(layer.parameters.begin(), layer.parameters.end(), of_adapter);
      });
  const bool is_whole = std::find(kWhole.begin(), kWhole.end(), plan.model.family) != kWhole.end();
  std::string what;
  if (plan.model.graph)
    what = "the layers of an exported graph";
  else if (has_adapter)
    what = "layers with adapters";
  else if (is_whole)
    what = formatted("the layers of '{}'", plan.model.family);
  if (what.empty()) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("{} are not divided among ranks yet, and {} are asked for", what,
                                 counted(how.num_slices(), "slice")),
               .where = "`tensor_parallel.degree`",
               .remedy = "leave it at 1, and the slices"});
}

}  // namespace sluice::detail
