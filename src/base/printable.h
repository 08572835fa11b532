// Text of unknown length and content, made fit for one line that a person reads. No torch.
//
// Owns: characters that steer a terminal, line breaks, and how much of a long value is shown. Every
// part of an Error and everything that print() writes passes through here; warnings that quote
// values call it themselves. Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

// Longer words are cut in the middle, "abc...xyz"; a word with a '/' is a path, which one wants to
// find again.
inline constexpr std::size_t kMaxShownWord = 100;
inline constexpr std::size_t kMaxShownPath = 250;
inline constexpr std::size_t kMaxShownText = 800;

// On one line, with control characters as '?', invalid UTF-8 as U+FFFD, words of at most
// kMaxShownWord (paths: kMaxShownPath) bytes and at most max_bytes in all. What is printable comes
// back unchanged.
std::string printable(std::string_view text, std::size_t max_bytes = kMaxShownText);

// The whole text with its lines and tabs. All other characters that steer a terminal become '?': C0
// and C1 controls, the marks and overrides of writing direction (U+202E), and separators that end a
// line elsewhere (U+2028). With Colors::kKeep, sequences that set colours stay.
enum class Colors { kReplace, kKeep };
std::string printable_lines(std::string_view text, Colors colors = Colors::kReplace);

// The text with U+FFFD in place of bytes that are not UTF-8 (Unicode 15, 3.9: one for each maximal
// part of a character).
std::string valid_utf8(std::string_view text);

}  // namespace sluice
