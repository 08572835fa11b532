#include "data/tokenizer/pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/error.h"
#include "support/expect_error.h"

namespace sluice::data {
namespace {

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  PatternScratch scratch;
  scratch.allow(text.size());
  std::vector<std::string> found;
  Pattern(pattern, "here").each_match(text, scratch, [&](PatternMatch match) {
    found.push_back(text.substr(match.first, match.last - match.first));
  });
  return found;
}

using Found = std::vector<std::string>;

TEST(PatternTest, TakesTheFirstAlternativeThatFits) {
  EXPECT_EQ(matches("a|ab", "abab"), (Found{"a", "a"}));
  EXPECT_EQ(matches("ab|a", "aba"), (Found{"ab", "a"}));
  EXPECT_EQ(matches("(a|ab)(c|bcd)", "abcd"), (Found{"abcd"}));
  // an empty match must not start where the previous match ended
  EXPECT_EQ(matches("x|", "ax"), (Found{"", "x"}));
}

TEST(PatternTest, RepeatsGreedilyLazilyAndWithoutGivingBack) {
  EXPECT_EQ(matches("a{2,3}", "aaaaaaa"), (Found{"aaa", "aaa"}));
  EXPECT_EQ(matches("a+?", "aa"), (Found{"a", "a"}));
  EXPECT_EQ(matches("a+ab", "aaab"), (Found{"aaab"}));
  EXPECT_EQ(matches("a++ab", "aaab"), (Found{}));
  EXPECT_EQ(matches("(?>a+|b)c", "aac"), (Found{"aac"}));
  EXPECT_EQ(matches("(?:ab){2}", "ababab"), (Found{"abab"}));
  EXPECT_EQ(matches("(?:ab)*+abc", "ababc"), (Found{}));
  EXPECT_EQ(matches("a{,2}b", "aaab"), (Found{"aab"}));
  EXPECT_EQ(matches("\\p{N}{1,3}+", "12345a6"),
            (Found{"12345", "6"}));  // here `+` repeats the repetition
  EXPECT_EQ(matches("a{x}", "a{x}"), (Found{"a{x}"}));
}

TEST(PatternTest, LooksAheadAndBehind) {
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+", "a   b  "), (Found{"  ", " ", "  "}));
  EXPECT_EQ(matches("a(?=b)", "abac"), (Found{"a"}));
  EXPECT_EQ(matches("(?<=ä|bc)x", "äxbcxcx"), (Found{"x", "x"}));
  EXPECT_EQ(matches("(?<!\\d)\\d", "12 3"), (Found{"1", "3"}));
}

TEST(PatternTest, KnowsTheEdgesOfTextLineAndWord) {
  EXPECT_EQ(matches("^a", "a\na"), (Found{"a", "a"}));
  EXPECT_EQ(matches("a$", "a\naa"), (Found{"a", "a"}));
  EXPECT_EQ(matches("\\Aa|a\\z", "a\na"), (Found{"a", "a"}));
  EXPECT_EQ(matches("a\\Z", "a\na\n"), (Found{"a"}));
  EXPECT_EQ(matches("\\b\\w+\\b", "ä1 b."), (Found{"ä1", "b"}));
  EXPECT_EQ(matches(".+", "a\nb"), (Found{"a", "b"}));
  EXPECT_EQ(matches("(?m:.+)", "a\nb"), (Found{"a\nb"}));
}

TEST(PatternTest, ReadsClasses) {
  EXPECT_EQ(matches("[a-c\\d-]+", "ab-1d"), (Found{"ab-1"}));
  EXPECT_EQ(matches("[^\\s\\p{L}]+", "a!? b"), (Found{"!?"}));
  EXPECT_EQ(matches("[\\w&&[^a]]+", "bab"), (Found{"b", "b"}));
  EXPECT_EQ(matches("[\\x{4E00}-龥]+", "a北京"), (Found{"北京"}));
  EXPECT_EQ(matches("[\\]\\[]", "[]"), (Found{"[", "]"}));
  EXPECT_EQ(matches("\\p{Lu}\\p{^Lu}\\P{Lu}", "ABcdE"), (Found{"Bcd"}));
  EXPECT_EQ(matches("\\p{Han}|\\p{Letter}", "a北"), (Found{"a", "北"}));
  // In Oniguruma, \\w matches Latin-1 superscripts and fractions only outside of a class.
  EXPECT_EQ(matches("\\w+", "a²"), (Found{"a²"}));
  EXPECT_EQ(matches("[\\w]+", "a²"), (Found{"a"}));
}

TEST(PatternTest, DisregardsCaseOfAscii) {
  EXPECT_EQ(matches("(?i:'s|'LL)", "'S'ſ'll's"), (Found{"'S", "'ſ", "'ll", "'s"}));
  EXPECT_EQ(matches("'(?i:[sdmt]|ll)", "'T'Ll"), (Found{"'T", "'Ll"}));
  EXPECT_EQ(matches("a(?i)b|c", "aBaC"), (Found{"aB", "aC"}));
  EXPECT_EQ(matches("(?i:k)k", "Kk"), (Found{"Kk"}));
}

TEST(PatternTest, RefusesWhatItDoesNotUnderstandByName) {
  for (const auto& [pattern, what] : std::vector<std::pair<std::string, std::string>>{
           {"(a", "a group without an end"},
           {"a)", "an unmatched ')'"},
           {"*a", "a repetition of nothing"},
           {"[a", "a class without an end"},
           {"[]", "an empty class"},
           {"[z-a]", "a range"},
           {"[[:alpha:]]", "a POSIX class"},
           {"\\p{Klingon}", "the property 'Klingon'"},
           {"(a)\\1", "the escape '\\1'"},
           {"\\X", "the escape '\\X'"},
           {"\\", "an unfinished escape or class"},
           {"(?P<n>a)", "a group that is not known"},
           {"(?x:a)", "a group that is not known"},
           {"(a*)*", "an endless repetition of a part that may be empty"},
           {"(?=a)*", "a repetition of something without length"},
           {"a{3}?", "'{n}?'"},
           {"a{5,2}", "at least 5 and at most 2"},
           {"a{9999}", "a repetition of more than 1000"},
           {"a{2}{2}{2}{2}", "more than 3 repetitions in a row"},
           {"(?<=a+)b", "a lookbehind of varying length"},
           {"(?i:ä)", "beyond ASCII where case is ignored"},
           {"(?i:ss)", "'ss' where case is ignored"},
           {"(?:(?:(?:a{900}){900}){900})", "repetitions that are too large"},
           {std::string(60, '(') + std::string(60, ')'), "groups nested too deeply"},
           {std::string(20000, 'a'), "20000 bytes"}}) {
    const Error error = test::error_of([&] { Pattern(pattern, "here"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_EQ(error.where(), "here");
    EXPECT_NE(error.fact().find(what), std::string::npos) << pattern << ": " << error.what();
  }
}

// Parsing would never finish if it visited a nested group twice per level or unrolled these
// repetitions.
TEST(PatternTest, IsReadInTimeOfItsLength) {
  std::string behind = "x";
  for (int level = 0; level < 40; ++level) behind = "(?:" + behind + "|b)";
  EXPECT_EQ(matches("(?<=" + behind + ")c", "acxc"), (Found{"c"}));
  EXPECT_EQ(matches("(?:(?:(?:){1000}{1000}{1000}){1000}{1000}{1000})a", "ba"), (Found{"a"}));
}

TEST(PatternTest, BoundsTheStepsOfAScan) {
  PatternScratch scratch;
  const auto scan = [&](const std::string& pattern, const std::string& text) {
    scratch.allow(text.size());
    Pattern(pattern, "here").each_match(text, scratch, [](PatternMatch) {});
  };
  for (const char* pattern : {"(a+)+b", "(?:a|a)+b", "a*a*a*a*b", "(?=(?:a+)+b)a", "(?:a?){30}b"}) {
    const Error error = test::error_of([&] { scan(pattern, std::string(3000, 'a')); });
    EXPECT_NE(error.fact().find("takes too long"), std::string::npos) << pattern;
  }
  // The patterns of real tokenizers take a few steps per byte on any text.
  for (const std::string& text :
       {std::string(1 << 20, ' '), std::string(1 << 20, 'a'), std::string(1 << 20, '\n')}) {
    EXPECT_NO_THROW(
        scan("[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
             "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
             text));
  }
}

}  // namespace
}  // namespace sluice::data
