#include "graph/dtypes.h"

#include <array>
#include <utility>

namespace sluice::detail {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 21> kScalarTypes{{
    {"float32", at::kFloat},
    {"int64", at::kLong},
    {"bool", at::kBool},
    {"bfloat16", at::kBFloat16},
    {"float16", at::kHalf},
    {"float64", at::kDouble},
    {"int32", at::kInt},
    {"int16", at::kShort},
    {"int8", at::kChar},
    {"uint8", at::kByte},
    {"complex32", at::kComplexHalf},
    {"complex64", at::kComplexFloat},
    {"complex128", at::kComplexDouble},
    {"uint16", at::kUInt16},
    {"uint32", at::kUInt32},
    {"uint64", at::kUInt64},
    {"float8_e4m3fn", at::kFloat8_e4m3fn},
    {"float8_e5m2", at::kFloat8_e5m2},
    {"float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
    {"float8_e5m2fnuz", at::kFloat8_e5m2fnuz},
    {"float8_e8m0fnu", at::kFloat8_e8m0fnu},
}};

constexpr std::array<std::pair<std::string_view, at::Layout>, 7> kLayouts{{
    {"strided", at::kStrided},
    {"sparse_coo", at::kSparse},
    {"sparse_csr", at::kSparseCsr},
    {"sparse_csc", at::kSparseCsc},
    {"sparse_bsr", at::kSparseBsr},
    {"sparse_bsc", at::kSparseBsc},
    {"mkldnn", at::kMkldnn},
}};

constexpr std::array<std::pair<std::string_view, at::MemoryFormat>, 4> kMemoryFormats{{
    {"contiguous", at::MemoryFormat::Contiguous},
    {"preserve", at::MemoryFormat::Preserve},
    {"channels_last", at::MemoryFormat::ChannelsLast},
    {"channels_last_3d", at::MemoryFormat::ChannelsLast3d},
}};

template <typename Table>
auto find_name(const Table& table, std::string_view name)
    -> std::optional<typename Table::value_type::second_type> {
  for (const auto& [known, value] : table) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<at::ScalarType> scalar_type(std::string_view name) {
  return find_name(kScalarTypes, name);
}
std::optional<at::Layout> layout(std::string_view name) { return find_name(kLayouts, name); }
std::optional<at::MemoryFormat> memory_format(std::string_view name) {
  return find_name(kMemoryFormats, name);
}

}  // namespace sluice::detail
