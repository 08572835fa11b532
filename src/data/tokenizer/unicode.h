// Properties of codepoints, from the library `tokenizers` (tools/make_unicode_tables.py), whose
// parts use different Unicode versions.
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
  char32_t first, last;  // both inclusive
};

// Sorted and not adjacent.
using CodepointRanges = std::vector<CodepointRange>;

CodepointRanges complement(const CodepointRanges& ranges);
CodepointRanges joined(CodepointRanges ranges);
CodepointRanges intersection(const CodepointRanges& a, const CodepointRanges& b);

// Returns Oniguruma's \p{NAME}: general categories ("L", "Lu", "Letter") and some scripts. Ignores
// case, spaces, '-' and '_'.
std::optional<CodepointRanges> property_ranges(std::string_view name);

enum class CodepointSet {
  kSpace,       // \s in patterns
  kWord,        // \w in patterns
  kDigit,       // \d in patterns
  kWhitespace,  // property White_Space
  kWholeWord,   // \w of single_word, Whitespace
  kNumeric,
  kPunctuation,
  kAccent,  // removed by StripAccents
};

const CodepointRanges& ranges_of(CodepointSet set);

class CodepointBits {
 public:
  explicit CodepointBits(const CodepointRanges& ranges);
  bool has(char32_t c) const { return pages_[page_of_[c >> 8]][c >> 6 & 3] >> (c & 63) & 1; }

 private:
  // Bits of 256 codepoints. Page 0 is empty and page 1 full.
  using Page = std::array<std::uint64_t, 4>;
  std::array<std::uint16_t, 0x1100> page_of_{};
  std::vector<Page> pages_;
};

const CodepointBits& bits_of(CodepointSet set);

// Maps each character alone: a final sigma is not special.
void append_lowercase(std::string& text, std::string_view from);

}  // namespace sluice::data
