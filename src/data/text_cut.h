// The places where a long text may be cut so that its pieces have the tokens of the whole.
//
// Tokenizers split a text into words before they merge, by patterns that look at no character
// before the word; so a cut where one word certainly ends, and the next begins, changes nothing:
// before a space behind a letter, or behind a single line end between a character that is no white
// space and a letter. SentencePiece models, which do not split, have no tokens across such places.
//
// Owns: the rule. Does not own: reading texts. Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::data {

// Number of bytes at the start of `text` that are a white-space character (Python's str.isspace());
// 0 for none.
std::size_t leading_space(std::string_view text);
// The same at its end.
std::size_t trailing_space(std::string_view text);

// The first place from `from` on where `text` may be cut, npos for none.
std::size_t find_cut(std::string_view text, std::size_t from);

// The last place up to `to` that is no place within a character of UTF-8; where text is cut that
// find_cut() finds no place in. Precondition: 3 < to < text.size().
std::size_t character_cut(std::string_view text, std::size_t to);

}  // namespace sluice::data
