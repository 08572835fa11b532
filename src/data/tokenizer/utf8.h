#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::data {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// Precondition: valid UTF-8.
inline std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Advances `at`. Preconditions: valid UTF-8, at < text.size().
inline char32_t next_codepoint(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return text[at++];
  char32_t c;
  if (lead < 0xE0) {
    c = (lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
    at += 2;
  } else if (lead < 0xF0) {
    c = (lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    at += 3;
  } else {
    c = (lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
    at += 4;
  }
  return c;
}

// Preconditions: valid UTF-8, at > 0.
inline std::size_t previous_character(std::string_view text, std::size_t at) {
  do {
    --at;
  } while (is_continuation(text[at]));
  return at;
}

void append_utf8(std::string& text, char32_t codepoint);

std::size_t valid_utf8_prefix(std::string_view bytes);

// Replaces each maximal invalid part by U+FFFD (Unicode 3.9, table 3-11).
void append_repaired(std::string& text, std::string_view bytes);

}  // namespace sluice::data
