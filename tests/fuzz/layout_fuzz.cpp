// The result must be an Error, or module lists. An accepted layout text must survive a round trip.
// tests/fuzz/fuzz.cmake renames the function to libFuzzer's entry point.
#include <cstdint>
#include <string>

#include "fuzz/require.h"
#include "plan/partition/layout_text.h"
#include "sluice/error.h"

using sluice::test::require;

extern "C" int fuzz_layout(const std::uint8_t* data, std::size_t size) {
  static const sluice::ModelSpec model = sluice::model_spec_of_blocks(3);
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const std::vector<std::string> stages = sluice::detail::expand_layout(text);
    require(sluice::detail::expand_layout(sluice::detail::shorten_layout(stages)) == stages);
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kUsage);
  }
  try {
    for (const auto& stage : sluice::detail::modules_of_layout(model, text))
      require(text.front() != 'E' || !stage.empty());
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kUsage);
  }
  return 0;
}
