// Parses arbitrary bytes as a manifest, with and without a valid seal.
#include <cstdint>

#include "checkpoint/fuzz/properties.h"

extern "C" int fuzz_manifest(const std::uint8_t* data, std::size_t size) {
  sluice::test::check_manifest({reinterpret_cast<const char*>(data), size});
  return 0;
}
