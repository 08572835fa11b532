// Finds places where a text can be cut without changing its tokens.
//
// Tokenizers split text into words with patterns that do not look back beyond the word. So a cut is
// safe before a space after a letter, or after a single line end between a non-space character and
// a letter. SentencePiece models have no tokens across such places.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::data {

// Returns the bytes of the leading white-space character (as in Python's str.isspace()), or 0.
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);

// Returns the first position >= `from` where a cut is safe, or npos.
std::size_t find_cut(std::string_view text, std::size_t from);

// Returns the last character boundary at or before `to`. Precondition: 3 < to < text.size().
std::size_t character_cut(std::string_view text, std::size_t to);

}  // namespace sluice::data
