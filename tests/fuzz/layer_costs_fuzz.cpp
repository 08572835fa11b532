// The result must be an Error, or finite costs of a model's layers or of the file's own list.
// tests/fuzz/fuzz.cmake renames the function to libFuzzer's entry point.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "plan/predict/layer_costs.h"
#include "sluice/error.h"

using sluice::test::require;

namespace {

void require_finite(const sluice::CostedModel& costed) {
  require(costed.model.layers.size() == costed.times.layers.size());
  for (const sluice::LayerTime& layer : costed.times.layers)
    require(std::isfinite(layer.forward) && layer.forward >= 0 && std::isfinite(layer.backward));
}

}  // namespace

extern "C" int fuzz_layer_costs(const std::uint8_t* data, std::size_t size) {
  static const sluice::ModelSpec model = sluice::model_spec_of_blocks(3);
  sluice::LayerCosts costs;
  try {
    costs = sluice::parse_layer_costs({reinterpret_cast<const char*>(data), size}, "costs.json");
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput);
    return 0;
  }
  try {
    require_finite(sluice::with_layer_costs(costs, model, {1, 8}, sluice::OptimizerKind::kAdamW));
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput && error.where() == "costs.json");
  }
  try {
    require_finite(sluice::model_of_layer_costs(costs));
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput && error.where() == "costs.json");
  }
  return 0;
}
