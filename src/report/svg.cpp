#include "report/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "base/printable.h"

namespace sluice::svg {
namespace {

// Returns the smallest 1, 2 or 5 times a power of ten that is at least `rough`.
double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

}  // namespace

// Prints integers, because their text is equal on every machine.
std::string px(double value) {
  constexpr double kFarthest = 1e9;
  const double shown = std::isnan(value) ? 0 : std::clamp(value, -kFarthest, kFarthest);
  const std::int64_t tenths = std::llround(shown * 10);
  const std::int64_t size = std::abs(tenths);
  std::string text = (tenths < 0 ? "-" : "") + std::to_string(size / 10);
  if (size % 10 != 0) text += "." + std::to_string(size % 10);
  return text;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

std::string hex(const std::array<int, 3>& color) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "#";
  for (const int part : color) text += {kDigits[part / 16], kDigits[part % 16]};
  return text;
}

std::string text_at(double x, double y, const std::string& attributes, const std::string& text) {
  return "<text x=\"" + px(x) + "\" y=\"" + px(y) + "\" " + attributes + ">" + escaped(text) +
         "</text>\n";
}

std::vector<double> axis_ticks(double low, double high, double wanted) {
  const double step = high > low ? round_step((high - low) / wanted) : 0;
  if (!(step > 0) || !std::isfinite(step) || !std::isfinite(low)) return {};
  std::vector<double> ticks;
  const double first = std::ceil(low / step);
  const double end = high + 1e-9 * (high - low);  // the last mark may be rounded up
  for (int i = 0; i < kMostTicks; ++i) {
    const double tick = (first + i) * step;
    if (!(tick <= end)) break;
    // In a very narrow range, several marks may round to the same double.
    if (ticks.empty() || tick > ticks.back()) ticks.push_back(tick);
  }
  return ticks;
}

}  // namespace sluice::svg
