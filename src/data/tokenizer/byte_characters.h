// GPT-2's mapping of bytes to characters. Printable Latin-1 bytes map to themselves, others from
// U+0100 on.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::data {

const std::array<std::string, 256>& byte_characters();
std::optional<unsigned char> byte_of_character(char32_t character);
std::optional<std::string> bytes_of_characters(std::string_view text);
void append_byte_characters(std::string& text, std::string_view bytes);

}  // namespace sluice::data
