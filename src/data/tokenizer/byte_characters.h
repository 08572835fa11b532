// The characters that stand for bytes in byte-level vocabularies, as GPT-2 has them: a printable
// character of Latin-1 is itself, the others follow each other from U+0100 on.
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::data {

// UTF-8, one or two bytes each.
const std::array<std::string, 256>& byte_characters();
std::optional<unsigned char> byte_of_character(char32_t character);
// The bytes that `text` stands for, or nothing when one of its characters stands for none.
std::optional<std::string> bytes_of_characters(std::string_view text);
void append_byte_characters(std::string& text, std::string_view bytes);

}  // namespace sluice::data
