#include "data/tokenizer/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sluice::data {
namespace {

struct Sequence {
  std::size_t length = 0;  // length of the character or of its invalid part
  bool valid = false;
};

// The second byte's bounds exclude overlong forms, surrogates and codepoints above U+10FFFF
// (Unicode 3.9, table 3-7).
Sequence sequence_at(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const std::size_t needed = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  std::size_t length = 1;
  while (length < needed && length < bytes.size()) {
    const bool fits =
        length == 1 ? byte(1) >= low && byte(1) <= high : is_continuation(bytes[length]);
    if (!fits) break;
    ++length;
  }
  return {length, length == needed};
}

}  // namespace

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&text](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::size_t valid_utf8_prefix(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (at + 8 <= bytes.size()) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + at, 8);
      if ((word & 0x8080808080808080ULL) == 0) {
        at += 8;
        continue;
      }
    }
    const Sequence sequence = sequence_at(bytes.substr(at));
    if (!sequence.valid) return at;
    at += sequence.length;
  }
  return at;
}

void append_repaired(std::string& text, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t valid = valid_utf8_prefix(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    append_utf8(text, kReplacementCharacter);
    bytes.remove_prefix(sequence_at(bytes).length);
  }
}

}  // namespace sluice::data
