#include "io/fuzz/properties.h"

extern "C" int fuzz_jsonl_row(const std::uint8_t* data, std::size_t size) {
  sluice::test::check_jsonl_row({reinterpret_cast<const char*>(data), size});
  return 0;
}
