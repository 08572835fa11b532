// Parses arbitrary bytes as a safetensors file. The first two bytes set where the data begins.
#include <algorithm>

#include "io/fuzz/properties.h"

extern "C" int fuzz_safetensors(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  sluice::test::check_safetensors(bytes,
                                  std::min<std::size_t>(bytes.size(), data[0] + 256u * data[1]));
  return 0;
}
