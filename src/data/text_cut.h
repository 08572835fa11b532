// Finds places where a long text can be cut without changing its tokens.
//
// Tokenizers split text into words before they merge, and their patterns do not look back beyond
// the word. So a cut at a certain word border is safe: before a space that follows a letter, or
// after a single line end that stands between a non-space character and a letter. SentencePiece
// models do not split, but have no tokens across such places.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::data {

// Returns the length in bytes of white space (as in Python's str.isspace()) at the start of `text`,
// at most one character, or 0.
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);

// Returns the first safe cut at or after `from`, or npos.
std::size_t find_cut(std::string_view text, std::size_t from);

// Returns the last UTF-8 character border up to `to`, for texts without a safe cut. Precondition: 3
// < to < text.size().
std::size_t character_cut(std::string_view text, std::size_t to);

}  // namespace sluice::data
