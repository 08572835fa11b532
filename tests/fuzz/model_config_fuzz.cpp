// The result must be an input error, or a model that every convention splits or rejects.
// tests/fuzz/fuzz.cmake renames the function to libFuzzer's entry point.
#include <cstdint>
#include <string>

#include "fuzz/require.h"
#include "sluice/error.h"
#include "sluice/partition.h"

using sluice::test::require;

extern "C" int fuzz_model_config(const std::uint8_t* data, std::size_t size) {
  sluice::ModelSpec model;
  try {
    model = sluice::parse_model_spec(std::string(data, data + size), "config.json");
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput);
    return 0;
  }
  require(model.num_parameters() > 0);
  for (const std::string& convention : sluice::partition_conventions()) {
    try {
      const sluice::Partition partition =
          sluice::make_partition(model, {.convention = convention, .num_ranks = 2});
      require(sluice::stage_shapes(model, partition, 1, 1).size() == partition.stages.size());
    } catch (const sluice::Error& error) {
      require(error.kind() == sluice::ErrorKind::kUsage);
    }
  }
  return 0;
}
