// Python's string functions that depend on Unicode. They throw Error(kInput) for characters whose
// result needs more than the tables of the tokenizer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::data::jinja {

std::string lower_text(std::string_view text);
std::string upper_text(std::string_view text);
// str.title(): the first letter of each word is upper case.
std::string title_text(std::string_view text);
std::string capital_text(std::string_view text);

// str.strip(characters); without `characters`, of white space.
std::string_view stripped_left(std::string_view text, const std::optional<std::string>& characters);
std::string_view stripped_right(std::string_view text,
                                const std::optional<std::string>& characters);

}  // namespace sluice::data::jinja
