// Removes terminal controls from unknown text. Error and print() do so; warnings must do it for
// values that they quote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

// Longer words become "abc...xyz". Paths, which contain a '/', may be longer.
inline constexpr std::size_t kMaxShownWord = 100;
inline constexpr std::size_t kMaxShownPath = 250;
inline constexpr std::size_t kMaxShownText = 800;

// Returns one line of at most max_bytes. Terminal controls become '?', invalid UTF-8 becomes
// U+FFFD, and long words are cut.
std::string printable(std::string_view text, std::size_t max_bytes = kMaxShownText);

// Keeps lines and tabs. Replaces other terminal controls, also those of Unicode, by '?'.
// Colors::kKeep keeps colour sequences.
enum class Colors { kReplace, kKeep };
std::string printable_lines(std::string_view text, Colors colors = Colors::kReplace);

// Replaces each maximal invalid part of a character by U+FFFD (Unicode 15, 3.9).
std::string valid_utf8(std::string_view text);

}  // namespace sluice
