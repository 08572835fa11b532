// The result must be an Error, or costs with which a program is simulated or rejected.
// tests/fuzz/fuzz.cmake renames the function to libFuzzer's entry point.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "plan/predict/costs.h"
#include "sluice/error.h"
#include "sluice/program.h"
#include "sluice/simulate.h"

using sluice::test::require;

extern "C" int fuzz_costs(const std::uint8_t* data, std::size_t size) {
  static const sluice::Program program = sluice::lower(
      sluice::make_schedule("ZBVZeroBubble", {.num_ranks = 2, .num_microbatches = 3}));
  sluice::Costs costs;
  try {
    costs = sluice::parse_costs_json({reinterpret_cast<const char*>(data), size}, "costs.json");
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput);
    return 0;
  }
  try {
    const sluice::Simulation simulation = sluice::simulate(program, costs);
    require(std::isfinite(simulation.makespan) && simulation.makespan >= 0);
    require(simulation.bubble_fraction >= 0 && simulation.bubble_fraction <= 1);
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput && error.where() == "costs.json");
  }
  return 0;
}
