#include "base/printable.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

struct Character {
  std::size_t bytes = 1;
  char32_t code = 0;
  bool valid = false;
};

// `text` must not be empty. For an invalid character, `bytes` is the length of its valid start.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead, true};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return {};
  char32_t code = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (i >= text.size() || (byte(i) & 0xc0) != 0x80) return {i};
    // Rejects overlong forms, surrogates and values above U+10FFFF.
    if (i == 1 && ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
                   (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)))
      return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  return {length, code, true};
}

bool steers_terminal(char32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true;
  const bool sets_direction = code == 0x061c || code == 0x200e || code == 0x200f ||
                              (code >= 0x202a && code <= 0x202e) ||
                              (code >= 0x2066 && code <= 0x2069);
  return sets_direction || code == 0x2028 || code == 0x2029;
}

// Length of a colour sequence ESC [ NUMBERS m at the start, or 0.
std::size_t color_length(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

std::string without_controls(std::string_view text, bool keep_lines, Colors colors) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const char c = text.front();
    std::size_t taken = colors == Colors::kKeep ? color_length(text) : 0;
    if (taken > 0) {
      shown += text.substr(0, taken);
    } else if (c == '\n' || c == '\t' || c == '\r') {
      const bool ends_line = c == '\n' || c == '\t' || text.starts_with("\r\n");
      shown += keep_lines && ends_line ? c : ' ';
      taken = 1;
    } else {
      const Character character = first_character(text);
      taken = character.bytes;
      if (!character.valid)
        shown += kReplacement;
      else if (steers_terminal(character.code))
        shown += '?';
      else
        shown += text.substr(0, taken);
    }
    text.remove_prefix(taken);
  }
  return shown;
}

bool is_inside_character(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// Keeps the start and the end, in the ratio 2 to 1.
std::string cut(std::string_view text, std::size_t max_bytes) {
  constexpr std::string_view kDots = "...";
  if (text.size() <= max_bytes) return std::string(text);
  const std::size_t shown = max_bytes - kDots.size();
  std::size_t head = shown - shown / 3, tail = text.size() - shown / 3;
  while (head > 0 && is_inside_character(text, head)) --head;
  while (is_inside_character(text, tail)) ++tail;
  return std::string(text.substr(0, head)).append(kDots).append(text.substr(tail));
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  const std::string line = without_controls(text, /*keep_lines=*/false, Colors::kReplace);
  std::string shown;
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    std::string_view word = std::string_view(line).substr(begin, end - begin);
    // A word of an Error's line may already be cut to the limit, before ';'. Do not cut it again.
    const bool ends_part = word.ends_with(';');
    if (ends_part) word.remove_suffix(1);
    const bool is_path = word.find('/') != std::string_view::npos;
    shown += cut(word, is_path ? kMaxShownPath : kMaxShownWord);
    if (ends_part) shown += ';';
    if (end < line.size()) shown += ' ';
    begin = end + 1;
  }
  return cut(shown, max_bytes);
}

std::string printable_lines(std::string_view text, Colors colors) {
  return without_controls(text, /*keep_lines=*/true, colors);
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    valid += character.valid ? text.substr(0, character.bytes) : kReplacement;
    text.remove_prefix(character.bytes);
  }
  return valid;
}

}  // namespace sluice
