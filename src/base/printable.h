// Text of unknown length and content, made fit for one line that a person reads. No torch.
//
// Owns: control characters, line breaks, and how much of a long value is shown. Every part of an
// Error passes through here; warnings that quote values call it themselves.
// Thread-safety: pure functions.
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

// On one line, with control characters as '?', words of at most kMaxShownWord (paths:
// kMaxShownPath) bytes and at most max_bytes in all. What is printable comes back unchanged.
std::string printable(std::string_view text, std::size_t max_bytes = kMaxShownText);

}  // namespace sluice
