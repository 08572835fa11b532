// The result must be an Error, or a model with finite costs. tests/fuzz/fuzz.cmake renames the
// function to libFuzzer's entry point.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/strict_json.h"
#include "family/planned.h"
#include "fuzz/require.h"
#include "sluice/error.h"

using sluice::test::require;

extern "C" int fuzz_planned_model(const std::uint8_t* data, std::size_t size) {
  try {
    const sluice::Json document =
        sluice::parse_strict_json({reinterpret_cast<const char*>(data), size}, "config.json");
    if (!document.is_object() || !sluice::detail::is_planned_model(document)) return 0;
    const sluice::ModelSpec model =
        sluice::detail::planned_model(document, "config.json", sluice::Precision());
    require(!model.layers.empty() && model.num_blocks() > 0);
    for (const sluice::LayerInfo& layer : model.layers) {
      const double flops = layer.cost.forward_flops.at({1, 8});
      require(std::isfinite(flops) && flops >= 0);
    }
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput);
  }
  return 0;
}
