#include "data/tokenizer/byte_characters.h"

#include "data/tokenizer/utf8.h"

namespace sluice::data {
namespace {

constexpr char32_t kFirstOther = 0x100;
constexpr std::size_t kNumOther = 33 + 34 + 1;

constexpr bool is_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
}

constexpr std::array<unsigned char, kNumOther> other_bytes() {
  std::array<unsigned char, kNumOther> bytes{};
  std::size_t count = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!is_itself(byte)) bytes[count++] = static_cast<unsigned char>(byte);
  }
  return bytes;
}

constexpr std::array<unsigned char, kNumOther> kOtherBytes = other_bytes();

}  // namespace

const std::array<std::string, 256>& byte_characters() {
  static const std::array<std::string, 256> characters = [] {
    std::array<std::string, 256> all;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (is_itself(byte)) append_utf8(all[byte], byte);
    }
    for (std::size_t i = 0; i < kNumOther; ++i) {
      append_utf8(all[kOtherBytes[i]], kFirstOther + static_cast<char32_t>(i));
    }
    return all;
  }();
  return characters;
}

std::optional<unsigned char> byte_of_character(char32_t c) {
  if (c < 256 && is_itself(c)) return static_cast<unsigned char>(c);
  if (c >= kFirstOther && c < kFirstOther + kNumOther) return kOtherBytes[c - kFirstOther];
  return std::nullopt;
}

std::optional<std::string> bytes_of_characters(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const std::optional<unsigned char> byte = byte_of_character(next_codepoint(text, at));
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

void append_byte_characters(std::string& text, std::string_view bytes) {
  const std::array<std::string, 256>& characters = byte_characters();
  for (const char byte : bytes) text += characters[static_cast<unsigned char>(byte)];
}

}  // namespace sluice::data
