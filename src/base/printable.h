// Makes unknown text safe to show on one line: removes terminal controls and line breaks, and
// shortens it. Error and print() apply this to all their text. Warnings must call it for values
// that they quote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

// Longer words are cut in the middle, "abc...xyz". Words with a '/' are paths, which readers must
// be able to find, so they may be longer.
inline constexpr std::size_t kMaxShownWord = 100;
inline constexpr std::size_t kMaxShownPath = 250;
inline constexpr std::size_t kMaxShownText = 800;

// Replaces control characters by '?' and invalid UTF-8 by U+FFFD. Cuts words to kMaxShownWord bytes
// (paths: kMaxShownPath) and the text to max_bytes. Returns printable text unchanged.
std::string printable(std::string_view text, std::size_t max_bytes = kMaxShownText);

// Keeps all lines and tabs. Replaces other characters that control a terminal by '?': C0 and C1
// controls, writing direction marks (U+202E), and Unicode line separators (U+2028). Colors::kKeep
// keeps colour sequences.
enum class Colors { kReplace, kKeep };
std::string printable_lines(std::string_view text, Colors colors = Colors::kReplace);

// Replaces invalid bytes by U+FFFD, one per maximal part of a character (Unicode 15, 3.9).
std::string valid_utf8(std::string_view text);

}  // namespace sluice
