#include "sluice/error.h"
#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

TEST(ErrorTest, JoinsFactPlaceAndRemedyOnOneLine) {
  const Error error(
      ErrorKind::kUsage,
      {.what = "unknown key\n'stps'", .where = "run.toml:3:1", .remedy = "did you mean 'steps'?"});
  EXPECT_STREQ(error.what(), "unknown key 'stps'; run.toml:3:1; did you mean 'steps'?");
  EXPECT_EQ(error.exit_code(), 2);
}

TEST(ErrorTest, ShowsControlCharactersAsQuestionMarks) {
  EXPECT_STREQ(
      Error(ErrorKind::kUsage,
            {.what = "a\x1b[3m\tb\x7f", .where = "\u009bc\u0080", .remedy = "\u00e9\u20ac"})
          .what(),
      "a?[3m b?; ?c?; \u00e9\u20ac");
}

TEST(ErrorTest, CutsLongValuesInTheirMiddle) {
  const std::string value = "a" + std::string(1'000'000, 'x') + "z";
  const Error error(
      ErrorKind::kUsage,
      {.what = "unknown key '" + value + "'", .where = "/" + value, .remedy = "write " + value});
  EXPECT_EQ(error.fact().size(), std::string("unknown key ").size() + 100);
  EXPECT_TRUE(error.fact().starts_with("unknown key 'axxx")) << error.fact();
  EXPECT_TRUE(error.fact().ends_with("xxxz'")) << error.fact();
  EXPECT_NE(error.fact().find("xx...xx"), std::string::npos);
  EXPECT_EQ(error.where().size(), 250u) << "a path";
  EXPECT_LT(std::string(error.what()).size(), 500u);
  std::string words;
  for (int i = 0; i < 100'000; ++i) words += "word ";
  EXPECT_LE(
      Error(ErrorKind::kUsage, {.what = words, .where = words, .remedy = words}).fact().size(),
      800u);
}

TEST(ErrorTest, CutsBetweenCharacters) {
  std::string value;
  for (int i = 0; i < 100; ++i) value += "\u20ac";
  const std::string shown = Error(ErrorKind::kUsage, {.what = value}).fact();
  EXPECT_LE(shown.size(), 100u);
  EXPECT_EQ((shown.size() - 3) % 3, 0u) << shown;
}

TEST(ErrorTest, TheLineOfAnErrorIsAFactThatStaysWhole) {
  std::string words;
  for (int i = 0; i < 1000; ++i) words += "word ";
  const Error error(ErrorKind::kPeer,
                    {.what = words, .where = "/" + std::string(300, 'p'), .remedy = words});
  EXPECT_STREQ(Error(error.kind(), {.what = error.what()}).what(), error.what());
}

TEST(ErrorTest, MovesToAnotherPlace) {
  const Error error =
      Error(ErrorKind::kInput, {.what = "fact", .where = "here", .remedy = "remedy"}).at("there");
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_STREQ(error.what(), "fact; there; remedy");
}

TEST(ErrorTest, LeavesOutEmptyParts) {
  EXPECT_STREQ(Error(ErrorKind::kInternal, {.what = "broken"}).what(), "broken");
}

TEST(NearestNameTest, TakesNoNameOfHundredsOfLettersForATypo) {
  const std::string name(300, 'a');
  EXPECT_EQ(nearest_name(name + "b", std::vector<std::string>{name}), "");
}

TEST(NearestNameTest, FindsTypoAnyCaseAndRefusesStrangers) {
  const std::vector<std::string> names = {"steps", "seq_len", "seed"};
  EXPECT_EQ(nearest_name("stpes", names), "steps");
  EXPECT_EQ(nearest_name("SEQLEN", names), "seq_len");
  EXPECT_EQ(nearest_name("optimizer", names), "");
  EXPECT_EQ(suggest_name("optimizer", names), "one of: steps, seq_len, seed");
}

}  // namespace
}  // namespace sluice
