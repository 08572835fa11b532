#include "io/safetensors_dtype.h"

#include <array>

namespace sluice::io {
namespace {

struct Row {
  std::string_view name;
  at::ScalarType dtype;
};
constexpr std::array<Row, 19> kRows = {{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U64", at::kUInt64},
    {"U32", at::kUInt32},
    {"U16", at::kUInt16},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
    {"C64", at::kComplexFloat},
    {"F8_E5M2", at::kFloat8_e5m2},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2FNUZ", at::kFloat8_e5m2fnuz},
    {"F8_E4M3FNUZ", at::kFloat8_e4m3fnuz},
    {"F8_E8M0", at::kFloat8_e8m0fnu},
}};

}  // namespace

std::optional<at::ScalarType> torch_dtype(std::string_view safetensors_dtype) {
  for (const Row& row : kRows) {
    if (row.name == safetensors_dtype) return row.dtype;
  }
  return std::nullopt;
}

std::string safetensors_dtype(at::ScalarType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return std::string(row.name);
  }
  return {};
}

bool is_plain_float(at::ScalarType dtype) {
  return dtype == at::kDouble || dtype == at::kFloat || dtype == at::kHalf ||
         dtype == at::kBFloat16;
}

}  // namespace sluice::io
