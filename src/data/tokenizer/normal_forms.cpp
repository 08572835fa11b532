#include "data/tokenizer/normal_forms.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/unicode_tables.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data {
namespace {

// Hangul syllables decompose by arithmetic (Unicode 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kNumLeading = 19, kNumVowels = 21, kNumTrailing = 28;
constexpr char32_t kNumSyllables = kNumLeading * kNumVowels * kNumTrailing;

// Characters below neither decompose nor compose with earlier ones.
constexpr char32_t kFirstOfInterest = 0xA0;

struct Character {
  char32_t codepoint;
  std::uint8_t combining_class;
};

class Forms {
 public:
  Forms() {
    const auto index = [](auto& map, const char32_t* at, const char32_t* end) {
      for (; at != end; ++at) {
        const char32_t c = *at++;
        const char32_t* const first = at;
        while (*at != 0) ++at;
        map.emplace(c, std::u32string_view(first, static_cast<std::size_t>(at - first)));
      }
    };
    index(canonical_, std::begin(tables::kCanonical), std::end(tables::kCanonical));
    index(compatible_, std::begin(tables::kCompatible), std::end(tables::kCompatible));
    for (const auto& run : tables::kCombiningClasses) {
      for (char32_t c = run.first; c <= run.last; ++c) classes_.emplace(c, run.combining_class);
    }
    for (const auto& pair : tables::kCompositions) {
      compositions_.emplace(key(pair.first, pair.second), pair.composed);
    }
  }

  std::uint8_t combining_class(char32_t c) const {
    const auto it = classes_.find(c);
    return it == classes_.end() ? 0 : it->second;
  }

  void decompose(std::vector<Character>& out, char32_t c, bool compatible) const {
    if (c < kFirstOfInterest) {
      out.push_back({c, 0});
      return;
    }
    if (c >= kSyllables && c < kSyllables + kNumSyllables) {
      const char32_t index = c - kSyllables;
      out.push_back({kLeading + index / (kNumVowels * kNumTrailing), 0});
      out.push_back({kVowels + index % (kNumVowels * kNumTrailing) / kNumTrailing, 0});
      if (index % kNumTrailing != 0) out.push_back({kTrailing + index % kNumTrailing, 0});
      return;
    }
    std::u32string_view parts;
    if (compatible) {
      if (const auto it = compatible_.find(c); it != compatible_.end()) parts = it->second;
    }
    if (parts.empty()) {
      if (const auto it = canonical_.find(c); it != canonical_.end()) parts = it->second;
    }
    if (parts.empty()) {
      out.push_back({c, combining_class(c)});
      return;
    }
    for (const char32_t part : parts) out.push_back({part, combining_class(part)});
  }

  // Returns 0 if they do not compose.
  char32_t compose(char32_t first, char32_t second) const {
    if (first >= kLeading && first < kLeading + kNumLeading && second >= kVowels &&
        second < kVowels + kNumVowels) {
      return kSyllables + ((first - kLeading) * kNumVowels + (second - kVowels)) * kNumTrailing;
    }
    if (first >= kSyllables && first < kSyllables + kNumSyllables &&
        (first - kSyllables) % kNumTrailing == 0 && second > kTrailing &&
        second < kTrailing + kNumTrailing) {
      return first + (second - kTrailing);
    }
    const auto it = compositions_.find(key(first, second));
    return it == compositions_.end() ? 0 : it->second;
  }

 private:
  static std::uint64_t key(char32_t first, char32_t second) {
    return static_cast<std::uint64_t>(first) << 32 | second;
  }

  std::unordered_map<char32_t, std::u32string_view> canonical_, compatible_;
  std::unordered_map<char32_t, std::uint8_t> classes_;
  std::unordered_map<std::uint64_t, char32_t> compositions_;
};

void order_marks(std::vector<Character>& text) {
  for (auto at = text.begin(); at != text.end();) {
    if (at->combining_class == 0) {
      ++at;
      continue;
    }
    auto end = at;
    while (end != text.end() && end->combining_class != 0) ++end;
    std::stable_sort(at, end, [](const Character& a, const Character& b) {
      return a.combining_class < b.combining_class;
    });
    at = end;
  }
}

void compose(std::vector<Character>& text, const Forms& forms) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t kept = 0, starter = kNone;
  for (const Character& c : text) {
    if (starter != kNone) {
      // A mark of the same or a higher class in between, or another starter, blocks the
      // composition.
      const bool adjacent = kept == starter + 1;
      if (adjacent || (text[kept - 1].combining_class != 0 &&
                       text[kept - 1].combining_class < c.combining_class)) {
        if (const char32_t composed = forms.compose(text[starter].codepoint, c.codepoint)) {
          text[starter].codepoint = composed;
          continue;
        }
      }
    }
    if (c.combining_class == 0) starter = kept;
    text[kept++] = c;
  }
  text.resize(kept);
}

}  // namespace

void append_normalized(std::string& text, std::string_view from, NormalForm form) {
  static const Forms forms;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  // Copies ASCII. Normalizes each other stretch with the ASCII character before it, which may
  // compose with marks.
  std::vector<Character> stretch;
  for (std::size_t at = 0; at < from.size();) {
    std::size_t end = at;
    while (end < from.size() && static_cast<unsigned char>(from[end]) < 0x80) ++end;
    const std::size_t plain = end == from.size() || end == at ? end : end - 1;
    text += from.substr(at, plain - at);
    at = plain;
    stretch.clear();
    if (at < from.size() && static_cast<unsigned char>(from[at]) < 0x80) {
      stretch.push_back({static_cast<char32_t>(from[at]), 0});
      ++at;
    }
    while (at < from.size() && static_cast<unsigned char>(from[at]) >= 0x80) {
      forms.decompose(stretch, next_codepoint(from, at), compatible);
    }
    order_marks(stretch);
    if (composed) compose(stretch, forms);
    for (const Character& c : stretch) append_utf8(text, c.codepoint);
  }
}

}  // namespace sluice::data
