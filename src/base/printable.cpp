#include "base/printable.h"

#include <algorithm>

namespace sluice {
namespace {

// Values of files and arguments are quoted in messages: none may steer the terminal.
std::string without_controls(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // U+0080 to U+009F, which some terminals obey too, are 0xc2 0x80 to 0xc2 0x9f in UTF-8.
    const bool is_c1 = byte >= 0x80 && byte < 0xa0 && !shown.empty() && shown.back() == '\xc2';
    if (c == '\n' || c == '\r' || c == '\t') {
      shown += ' ';
    } else if (is_c1) {
      shown.back() = '?';
    } else {
      shown += byte < 0x20 || byte == 0x7f ? '?' : c;
    }
  }
  return shown;
}

bool is_inside_character(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;  // of UTF-8
}

// Two thirds of what is shown are the start.
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
  const std::string line = without_controls(text);
  std::string shown;
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    std::string_view word = std::string_view(line).substr(begin, end - begin);
    // A part of an error that was cut is not cut again in its line.
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

}  // namespace sluice
