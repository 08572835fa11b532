#include "data/text_cut.h"

#include <algorithm>

namespace sluice::data {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
}

bool is_ascii_letter(unsigned byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

// True for ASCII letters and U+4000 to U+9FFF, almost all ideographs. Needs no Unicode tables.
bool begins_letter(unsigned byte) { return is_ascii_letter(byte) || (byte >= 0xe4 && byte < 0xea); }

bool is_cut(std::string_view text, std::size_t i) {
  if (text[i] == ' ') return is_ascii_letter(byte_at(text, i - 1));
  return text[i - 1] == '\n' && i >= 2 && begins_letter(byte_at(text, i)) &&
         trailing_space(text.substr(0, i - 1)) == 0;
}

}  // namespace

std::size_t leading_space(std::string_view text) {
  if (text.empty()) return 0;
  const unsigned first = byte_at(text, 0), second = byte_at(text, 1), third = byte_at(text, 2);
  if ((first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x20)) return 1;
  if (first == 0xc2) return second == 0x85 || second == 0xa0 ? 2 : 0;  // U+0085, U+00A0
  const bool is_space =
      (first == 0xe1 && second == 0x9a && third == 0x80) ||  // U+1680
      (first == 0xe2 && second == 0x80 &&  // U+2000 to U+200A, U+2028, U+2029, U+202F
       ((third >= 0x80 && third <= 0x8a) || third == 0xa8 || third == 0xa9 || third == 0xaf)) ||
      (first == 0xe2 && second == 0x81 && third == 0x9f) ||  // U+205F
      (first == 0xe3 && second == 0x80 && third == 0x80);    // U+3000
  return is_space ? 3 : 0;
}

std::size_t trailing_space(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
    if (leading_space(text.substr(text.size() - length)) == length) return length;
  }
  return 0;
}

std::size_t find_cut(std::string_view text, std::size_t from) {
  for (std::size_t i = std::max<std::size_t>(from, 1); i < text.size(); ++i) {
    if (is_cut(text, i)) return i;
  }
  return std::string_view::npos;
}

std::size_t character_cut(std::string_view text, std::size_t to) {
  for (std::size_t back = 0; back < 4; ++back) {
    if ((byte_at(text, to - back) & 0xc0U) != 0x80U) return to - back;
  }
  return to;  // invalid UTF-8
}

}  // namespace sluice::data
