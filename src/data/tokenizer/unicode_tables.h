#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::data::tables {

struct Range {
  char32_t first, last;
};
// Ends where the next run starts.
struct CategoryRun {
  char32_t first;
  std::uint8_t category;
};
struct Composition {
  char32_t first, second, composed;
};
struct ClassRun {
  char32_t first, last;
  std::uint8_t combining_class;
};

#include "data/tokenizer/unicode_tables.inc"

}  // namespace sluice::data::tables
