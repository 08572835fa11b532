// Pieces of SVG and HTML that are equal on every machine.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::svg {

// Returns pixels to a tenth, limited to -1e9 .. 1e9. NaN becomes 0.
std::string px(double value);
// For text and attributes. Invalid UTF-8 becomes U+FFFD.
std::string escaped(std::string_view text);
std::string hex(const std::array<int, 3>& color);
std::string text_at(double x, double y, const std::string& attributes, const std::string& text);
// axis_ticks() returns at most this many marks, at multiples of 1, 2 or 5 times a power of ten, and
// none if the range is empty, not finite or too narrow.
inline constexpr int kMostTicks = 24;
std::vector<double> axis_ticks(double low, double high, double wanted);

}  // namespace sluice::svg
