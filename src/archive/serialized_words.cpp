#include "archive/serialized_words.h"

#include <algorithm>
#include <iterator>

namespace sluice::detail {
namespace {

struct DtypeWord {
  std::int64_t number;
  std::string_view name;
  int bytes;
};
constexpr DtypeWord kDtypeWords[] = {
    {1, "uint8", 1},
    {2, "int8", 1},
    {3, "int16", 2},
    {4, "int32", 4},
    {5, "int64", 8},
    {6, "float16", 2},
    {7, "float32", 4},
    {8, "float64", 8},
    {9, "complex32", 4},
    {10, "complex64", 8},
    {11, "complex128", 16},
    {12, "bool", 1},
    {13, "bfloat16", 2},
    {28, "uint16", 2},
    {29, "float8_e4m3fn", 1},
    {30, "float8_e5m2", 1},
    {31, "float8_e4m3fnuz", 1},
    {32, "float8_e5m2fnuz", 1},
    {33, "float8_e8m0fnu", 1},
    {34, "uint32", 4},
    {35, "uint64", 8},
};
constexpr std::string_view kLayouts[] = {"",           "sparse_coo", "sparse_csr", "sparse_csc",
                                         "sparse_bsr", "sparse_bsc", "mkldnn",     "strided"};
constexpr std::string_view kMemoryFormats[] = {"", "contiguous", "channels_last",
                                               "channels_last_3d", "preserve"};

template <std::size_t count>
std::string_view word_at(const std::string_view (&words)[count], std::int64_t number) {
  return number >= 0 && number < static_cast<std::int64_t>(count) ? words[number] : "";
}

}  // namespace

std::string_view serialized_dtype(std::int64_t number) {
  const auto row = std::ranges::find(kDtypeWords, number, &DtypeWord::number);
  return row == std::end(kDtypeWords) ? "" : row->name;
}

std::string_view serialized_layout(std::int64_t number) { return word_at(kLayouts, number); }

std::string_view serialized_memory_format(std::int64_t number) {
  return word_at(kMemoryFormats, number);
}

int dtype_bytes(std::string_view dtype) {
  const auto row = std::ranges::find(kDtypeWords, dtype, &DtypeWord::name);
  return row == std::end(kDtypeWords) ? 0 : row->bytes;
}

}  // namespace sluice::detail
