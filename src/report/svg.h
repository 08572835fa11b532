// Pieces of SVG and HTML that pictures and reports share: the same bytes on every machine.
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::svg {

// Pixels to a tenth. A value that no picture has room for, or that is no number, becomes the
// nearest of -1e9, 0 and 1e9.
std::string px(double value);
// Text between tags and in attributes. Bytes that are not UTF-8 become U+FFFD.
std::string escaped(std::string_view text);
// "#d55e00", of red, green and blue.
std::string hex(const std::array<int, 3>& color);
// A <text> and the end of its line.
std::string text_at(double x, double y, const std::string& attributes, const std::string& text);
// The marks of an axis from `low` to `high`: multiples of 1, 2 or 5 times a power of ten, in
// ascending order, about `wanted` of them and at most kMostTicks. None where the range is empty,
// not finite, or so narrow that doubles cannot divide it.
inline constexpr int kMostTicks = 24;
std::vector<double> axis_ticks(double low, double high, double wanted);

}  // namespace sluice::svg
