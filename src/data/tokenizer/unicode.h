// Properties of codepoints. tools/make_unicode_tables.py reads the tables from `tokenizers`, whose
// parts use different Unicode versions. The same holds here.
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
  char32_t first, last;  // inclusive
};

// Sorted and not adjacent.
using CodepointRanges = std::vector<CodepointRange>;

CodepointRanges complement(const CodepointRanges& ranges);
CodepointRanges joined(CodepointRanges ranges);
CodepointRanges intersection(const CodepointRanges& a, const CodepointRanges& b);

// Returns the ranges of \p{NAME} in Oniguruma: a general category ("L", "Lu", "Letter") or a
// supported script. Ignores case, spaces, '-' and '_'.
std::optional<CodepointRanges> property_ranges(std::string_view name);

enum class CodepointSet {
  kSpace,        // \s of patterns
  kWord,         // \w of patterns
  kDigit,        // \d of patterns
  kWhitespace,   // White_Space
  kWholeWord,    // \w of single-word tokens and of Whitespace
  kNumeric,      // for Digits
  kPunctuation,  // for Punctuation
  kAccent,       // for StripAccents
};

const CodepointRanges& ranges_of(CodepointSet set);

// A set with fast lookup.
class CodepointBits {
 public:
  explicit CodepointBits(const CodepointRanges& ranges);
  bool has(char32_t c) const { return pages_[page_of_[c >> 8]][c >> 6 & 3] >> (c & 63) & 1; }

 private:
  // Pages of 256 codepoints. The first two are empty and full, and are shared by most codepoints.
  using Page = std::array<std::uint64_t, 4>;
  std::array<std::uint16_t, 0x1100> page_of_{};
  std::vector<Page> pages_;
};

const CodepointBits& bits_of(CodepointSet set);

// Maps characters independently, so a final sigma is not special.
void append_lowercase(std::string& text, std::string_view from);

}  // namespace sluice::data
