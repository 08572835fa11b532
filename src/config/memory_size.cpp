#include "config/memory_size.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "base/text.h"

namespace sluice::detail {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 10> kUnits = {{{"", 1},
                                                                         {"b", 1},
                                                                         {"kb", 1e3},
                                                                         {"mb", 1e6},
                                                                         {"gb", 1e9},
                                                                         {"tb", 1e12},
                                                                         {"kib", 0x1p10},
                                                                         {"mib", 0x1p20},
                                                                         {"gib", 0x1p30},
                                                                         {"tib", 0x1p40}}};
constexpr double kMost = 9e18;

}  // namespace

std::optional<std::int64_t> bytes_of_text(std::string_view text) {
  text = trim(text);
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const auto rest = static_cast<std::size_t>(end - text.data());
  const std::string unit = to_lower(trim(text.substr(rest)));
  for (const auto& [name, factor] : kUnits) {
    if (name != unit) continue;
    const double bytes = number * factor;
    if (!(bytes >= 1) || bytes > kMost) return std::nullopt;
    return static_cast<std::int64_t>(bytes);
  }
  return std::nullopt;
}

}  // namespace sluice::detail
