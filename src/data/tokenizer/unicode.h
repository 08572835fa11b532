// Properties of single codepoints as `tokenizers` knows them.
//
// Owns: general categories, the sets that its parts ask for, lower case.
// Does not own: normal forms (normal_forms.h).
// The tables are asked of that package (tools/make_unicode_tables.py), whose parts each have a
// Unicode version of their own: so do these.
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

struct CodepointRange {
  char32_t first, last;  // both included
};

// Sorted, apart from each other.
using CodepointRanges = std::vector<CodepointRange>;

CodepointRanges complement(const CodepointRanges& ranges);
// Sorts and joins.
CodepointRanges joined(CodepointRanges ranges);
CodepointRanges intersection(const CodepointRanges& a, const CodepointRanges& b);

// The property that \p{NAME} means to Oniguruma: a general category ("L", "Lu", "Letter") or a
// script, of those that are known here. Case, spaces, '-' and '_' do not matter.
std::optional<CodepointRanges> property_ranges(std::string_view name);

enum class CodepointSet {
  kSpace,        // \s of patterns
  kWord,         // \w of patterns
  kDigit,        // \d of patterns
  kWhitespace,   // White_Space
  kWholeWord,    // \w of the tokens that are single words, and of Whitespace
  kNumeric,      // of Digits
  kPunctuation,  // of Punctuation
  kAccent,       // of StripAccents
};

const CodepointRanges& ranges_of(CodepointSet set);

// A set of codepoints that is asked for one at a time.
class CodepointBits {
 public:
  explicit CodepointBits(const CodepointRanges& ranges);
  bool has(char32_t c) const { return pages_[page_of_[c >> 8]][c >> 6 & 3] >> (c & 63) & 1; }

 private:
  // A page of 256 codepoints; most sets have few that are neither empty nor full, and these two are
  // the first.
  using Page = std::array<std::uint64_t, 4>;
  std::array<std::uint16_t, 0x1100> page_of_{};
  std::vector<Page> pages_;
};

const CodepointBits& bits_of(CodepointSet set);

// Maps each character by itself: a final sigma is not special.
void append_lowercase(std::string& text, std::string_view from);

}  // namespace sluice::data
