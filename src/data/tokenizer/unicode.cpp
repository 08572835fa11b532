#include "data/tokenizer/unicode.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "data/tokenizer/unicode_tables.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data {
namespace {

using tables::Range;

constexpr char32_t kLast = 0x10FFFF;

CodepointRanges made(std::span<const Range> ranges) {
  CodepointRanges out;
  for (const Range& range : ranges) out.push_back({range.first, range.last});
  return out;
}

CodepointRanges category_ranges(std::string_view prefix) {
  CodepointRanges out;
  for (std::size_t i = 0; i < std::size(tables::kCategoryRuns); ++i) {
    const auto& run = tables::kCategoryRuns[i];
    if (!tables::kCategoryNames[run.category].starts_with(prefix)) continue;
    const bool last = i + 1 == std::size(tables::kCategoryRuns);
    out.push_back({run.first, last ? kLast : tables::kCategoryRuns[i + 1].first - 1});
  }
  return joined(std::move(out));
}

struct Named {
  std::string_view name;
  std::string_view category;  // category prefix, or "" for a script
  std::span<const Range> script = {};
};

// Names for \p{NAME}; long names from Unicode's PropertyValueAliases.
const std::vector<Named>& properties() {
  static const std::vector<Named> table = {
      {"l", "L"},
      {"letter", "L"},
      {"lu", "Lu"},
      {"uppercaseletter", "Lu"},
      {"ll", "Ll"},
      {"lowercaseletter", "Ll"},
      {"lt", "Lt"},
      {"titlecaseletter", "Lt"},
      {"lm", "Lm"},
      {"modifierletter", "Lm"},
      {"lo", "Lo"},
      {"otherletter", "Lo"},
      {"m", "M"},
      {"mark", "M"},
      {"mn", "Mn"},
      {"nonspacingmark", "Mn"},
      {"mc", "Mc"},
      {"spacingmark", "Mc"},
      {"me", "Me"},
      {"enclosingmark", "Me"},
      {"n", "N"},
      {"number", "N"},
      {"nd", "Nd"},
      {"decimalnumber", "Nd"},
      {"nl", "Nl"},
      {"letternumber", "Nl"},
      {"no", "No"},
      {"othernumber", "No"},
      {"p", "P"},
      {"punctuation", "P"},
      {"pc", "Pc"},
      {"connectorpunctuation", "Pc"},
      {"pd", "Pd"},
      {"dashpunctuation", "Pd"},
      {"ps", "Ps"},
      {"openpunctuation", "Ps"},
      {"pe", "Pe"},
      {"closepunctuation", "Pe"},
      {"pi", "Pi"},
      {"initialpunctuation", "Pi"},
      {"pf", "Pf"},
      {"finalpunctuation", "Pf"},
      {"po", "Po"},
      {"otherpunctuation", "Po"},
      {"s", "S"},
      {"symbol", "S"},
      {"sm", "Sm"},
      {"mathsymbol", "Sm"},
      {"sc", "Sc"},
      {"currencysymbol", "Sc"},
      {"sk", "Sk"},
      {"modifiersymbol", "Sk"},
      {"so", "So"},
      {"othersymbol", "So"},
      {"z", "Z"},
      {"separator", "Z"},
      {"zs", "Zs"},
      {"spaceseparator", "Zs"},
      {"zl", "Zl"},
      {"lineseparator", "Zl"},
      {"zp", "Zp"},
      {"paragraphseparator", "Zp"},
      {"c", "C"},
      {"other", "C"},
      {"cc", "Cc"},
      {"control", "Cc"},
      {"cf", "Cf"},
      {"format", "Cf"},
      {"cn", "Cn"},
      {"unassigned", "Cn"},
      {"co", "Co"},
      {"privateuse", "Co"},
      {"arabic", "", tables::kArabic},
      {"cyrillic", "", tables::kCyrillic},
      {"devanagari", "", tables::kDevanagari},
      {"greek", "", tables::kGreek},
      {"han", "", tables::kHan},
      {"hangul", "", tables::kHangul},
      {"hebrew", "", tables::kHebrew},
      {"hiragana", "", tables::kHiragana},
      {"katakana", "", tables::kKatakana},
      {"latin", "", tables::kLatin},
      {"thai", "", tables::kThai},
  };
  return table;
}

CodepointRanges made(CodepointSet set) {
  switch (set) {
    case CodepointSet::kSpace:
      return made(tables::kSpaces);
    case CodepointSet::kWord:
      return made(tables::kWordCharacters);
    case CodepointSet::kDigit:
      return category_ranges("Nd");
    case CodepointSet::kWhitespace:
      return made(tables::kWhitespace);
    case CodepointSet::kWholeWord:
      return made(tables::kRegexWordCharacters);
    case CodepointSet::kNumeric:
      return made(tables::kNumeric);
    case CodepointSet::kPunctuation:
      return made(tables::kPunctuation);
    case CodepointSet::kAccent:
      return made(tables::kAccents);
  }
  return {};
}

}  // namespace

CodepointRanges joined(CodepointRanges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CodepointRange& a, const CodepointRange& b) { return a.first < b.first; });
  CodepointRanges out;
  for (const CodepointRange& range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CodepointRanges complement(const CodepointRanges& ranges) {
  CodepointRanges out;
  char32_t next = 0;
  for (const CodepointRange& range : ranges) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) out.push_back({next, kLast});
  return out;
}

CodepointRanges intersection(const CodepointRanges& a, const CodepointRanges& b) {
  CodepointRanges both = complement(a);
  const CodepointRanges not_b = complement(b);
  both.insert(both.end(), not_b.begin(), not_b.end());
  return complement(joined(std::move(both)));
}

std::optional<CodepointRanges> property_ranges(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const Named& property : properties()) {
    if (property.name != plain) continue;
    return property.category.empty() ? made(property.script) : category_ranges(property.category);
  }
  return std::nullopt;
}

const CodepointRanges& ranges_of(CodepointSet set) {
  static const std::array<CodepointRanges, 8> sets = [] {
    std::array<CodepointRanges, 8> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = made(static_cast<CodepointSet>(i));
    return all;
  }();
  return sets[static_cast<std::size_t>(set)];
}

CodepointBits::CodepointBits(const CodepointRanges& ranges) {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  pages_ = {{0, 0, 0, 0}, {kAll, kAll, kAll, kAll}};
  for (const CodepointRange& range : ranges) {
    for (char32_t c = range.first; c <= range.last;) {
      std::uint16_t& page = page_of_[c >> 8];
      if ((c & 255) == 0 && c + 255 <= range.last) {
        page = 1;
        c += 256;
        continue;
      }
      if (page == 0) {
        page = static_cast<std::uint16_t>(pages_.size());
        pages_.push_back({});
      }
      pages_[page][c >> 6 & 3] |= std::uint64_t{1} << (c & 63);
      ++c;
    }
  }
}

const CodepointBits& bits_of(CodepointSet set) {
  static const std::array<CodepointBits, 8> sets = [] {
    const auto bits = [](std::size_t i) {
      return CodepointBits(ranges_of(static_cast<CodepointSet>(i)));
    };
    return std::array<CodepointBits, 8>{bits(0), bits(1), bits(2), bits(3),
                                        bits(4), bits(5), bits(6), bits(7)};
  }();
  return sets[static_cast<std::size_t>(set)];
}

void append_lowercase(std::string& text, std::string_view from) {
  static const std::unordered_map<char32_t, std::string> lower = [] {
    std::unordered_map<char32_t, std::string> map;
    for (const char32_t* at = std::begin(tables::kLowercase); at != std::end(tables::kLowercase);
         ++at) {
      std::string& to = map[*at++];
      for (; *at != 0; ++at) append_utf8(to, *at);
    }
    return map;
  }();
  for (std::size_t at = 0; at < from.size();) {
    const std::size_t start = at;
    const char32_t c = next_codepoint(from, at);
    if (c < 0x80) {
      text += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    } else if (const auto it = lower.find(c); it != lower.end()) {
      text += it->second;
    } else {
      text += from.substr(start, at - start);
    }
  }
}

}  // namespace sluice::data
