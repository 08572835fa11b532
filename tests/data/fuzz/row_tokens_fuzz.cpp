// The first byte picks the chat template.
#include "data/fuzz/properties.h"

extern "C" int fuzz_row_tokens(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view json(reinterpret_cast<const char*>(data) + 1, size - 1);
  sluice::test::check_row_tokens(json, static_cast<sluice::ChatTemplate>(data[0] % 5));
  return 0;
}
