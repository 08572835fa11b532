#include "data/tokenizer/unicode.h"

#include <gtest/gtest.h>

#include <string>

#include "data/tokenizer/byte_characters.h"
#include "data/tokenizer/normal_forms.h"
#include "data/tokenizer/utf8.h"

namespace sluice::data {
namespace {

std::string form(const std::string& text, NormalForm which) {
  std::string out;
  append_normalized(out, text, which);
  return out;
}

std::string of(std::u32string_view codepoints) {
  std::string text;
  for (const char32_t c : codepoints) append_utf8(text, c);
  return text;
}

TEST(UnicodeTest, BringsTextIntoNormalForms) {
  struct Case {
    std::u32string_view text, nfc, nfd, nfkc, nfkd;
  };
  for (const Case& c : {
           Case{U"abc", U"abc", U"abc", U"abc", U"abc"},
           Case{U"\u00e9", U"\u00e9", U"e\u0301", U"\u00e9", U"e\u0301"},
           Case{U"e\u0301x", U"\u00e9x", U"e\u0301x", U"\u00e9x", U"e\u0301x"},
           // Combining marks are sorted. A mark between two others can keep them from composing.
           Case{U"a\u0301\u0323", U"\u1ea1\u0301", U"a\u0323\u0301", U"\u1ea1\u0301",
                U"a\u0323\u0301"},
           Case{U"q\u0307\u0323", U"q\u0323\u0307", U"q\u0323\u0307", U"q\u0323\u0307",
                U"q\u0323\u0307"},
           Case{U"a\u0305\u0301", U"a\u0305\u0301", U"a\u0305\u0301", U"a\u0305\u0301",
                U"a\u0305\u0301"},
           Case{U"\uac01", U"\uac01", U"\u1100\u1161\u11a8", U"\uac01", U"\u1100\u1161\u11a8"},
           Case{U"\uac00\u11a8", U"\uac01", U"\u1100\u1161\u11a8", U"\uac01",
                U"\u1100\u1161\u11a8"},
           Case{U"\ufb01\u00b2", U"\ufb01\u00b2", U"\ufb01\u00b2", U"fi2", U"fi2"},
           Case{U"\u212b", U"\u00c5", U"A\u030a", U"\u00c5", U"A\u030a"},
           Case{U"\u0958", U"\u0915\u093c", U"\u0915\u093c", U"\u0915\u093c",
                U"\u0915\u093c"},  // excluded from composition
           Case{U"\u1e9b\u0323", U"\u1e9b\u0323", U"\u017f\u0323\u0307", U"\u1e69",
                U"s\u0323\u0307"},
       }) {
    EXPECT_EQ(form(of(c.text), NormalForm::kNfc), of(c.nfc)) << of(c.text);
    EXPECT_EQ(form(of(c.text), NormalForm::kNfd), of(c.nfd)) << of(c.text);
    EXPECT_EQ(form(of(c.text), NormalForm::kNfkc), of(c.nfkc)) << of(c.text);
    EXPECT_EQ(form(of(c.text), NormalForm::kNfkd), of(c.nfkd)) << of(c.text);
  }
}

TEST(UnicodeTest, KeepsFormsThatAreNormalized) {
  for (char32_t c = 0; c < 0x30000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = of(std::u32string_view(&c, 1));
    for (const NormalForm which :
         {NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd}) {
      const std::string once = form(text, which);
      ASSERT_EQ(form(once, which), once) << std::hex << static_cast<std::uint32_t>(c);
    }
    ASSERT_EQ(form(form(text, NormalForm::kNfd), NormalForm::kNfc), form(text, NormalForm::kNfc))
        << std::hex << static_cast<std::uint32_t>(c);
  }
}

TEST(UnicodeTest, CombinesRanges) {
  const CodepointRanges set = joined({{5, 9}, {1, 2}, {3, 3}, {8, 12}});
  ASSERT_EQ(set.size(), 2u);
  EXPECT_EQ(static_cast<std::uint32_t>(set[0].last), 3u);
  EXPECT_EQ(static_cast<std::uint32_t>(set[1].last), 12u);
  const CodepointRanges rest = complement(set);
  EXPECT_EQ(static_cast<std::uint32_t>(rest.front().first), 0u);
  EXPECT_EQ(static_cast<std::uint32_t>(rest.back().last), 0x10FFFFu);
  EXPECT_TRUE(intersection(set, rest).empty());
  const CodepointBits bits(set);
  for (const char32_t c : {1u, 3u, 5u, 12u}) EXPECT_TRUE(bits.has(c));
  for (const char32_t c : {0u, 4u, 13u, 64u, 0x10FFFFu}) EXPECT_FALSE(bits.has(c));
}

TEST(UnicodeTest, KnowsCategories) {
  const auto has = [](const char* property, char32_t c) {
    return CodepointBits(*property_ranges(property)).has(c);
  };
  EXPECT_TRUE(has("Lu", U'Ä'));
  EXPECT_FALSE(has("Ll", U'Ä'));
  EXPECT_TRUE(has("L", U'京'));
  EXPECT_TRUE(has("Uppercase_Letter", U'A'));
  EXPECT_TRUE(has("Han", U'京'));
  EXPECT_TRUE(has("Cn", 0x378));
  EXPECT_TRUE(has("So", U'👍'));
  EXPECT_FALSE(property_ranges("Lx"));
  std::size_t count = 0;  // every codepoint has one category
  for (const char* category : {"L", "M", "N", "P", "S", "Z", "C"}) {
    const auto ranges = property_ranges(category);
    for (const CodepointRange& range : *ranges) count += range.last - range.first + 1;
  }
  EXPECT_GE(count, 0x110000u - 0x800u);
}

TEST(UnicodeTest, WritesBytesAsCharactersAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  std::string characters;
  append_byte_characters(characters, all);
  EXPECT_EQ(bytes_of_characters(characters), all);
  EXPECT_EQ(byte_characters()[' '], "Ġ");
  EXPECT_EQ(byte_characters()['\n'], "Ċ");
  EXPECT_EQ(byte_characters()[0xAD], "Ń");
  EXPECT_EQ(bytes_of_characters("a b"), std::nullopt);
}

TEST(UnicodeTest, LowersEveryCharacterByItself) {
  std::string text;
  append_lowercase(text, "ÀΣΑΣ İǅ京");
  EXPECT_EQ(text, "àσασ i̇ǆ京");
}

}  // namespace
}  // namespace sluice::data
