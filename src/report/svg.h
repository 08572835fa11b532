// Pieces of SVG and HTML that pictures and reports share: the same bytes on every machine.
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace sluice::svg {

// Pixels to a tenth.
std::string px(double value);
// Text between tags and in attributes.
std::string escaped(std::string_view text);
// "#d55e00", of red, green and blue.
std::string hex(const std::array<int, 3>& color);
// A <text> and the end of its line.
std::string text_at(double x, double y, const std::string& attributes, const std::string& text);
// The smallest of 1, 2 and 5 times a power of ten that is at least `rough`, which is above 0: the
// distance between the marks of an axis.
double round_step(double rough);

}  // namespace sluice::svg
