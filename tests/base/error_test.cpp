#include "sluice/error.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ErrorTest, JoinsFactPlaceAndRemedyOnOneLine) {
  const Error error(ErrorKind::kUsage, "unknown key\n'stps'", "run.toml:3:1",
                    "did you mean 'steps'?");
  EXPECT_STREQ(error.what(), "unknown key 'stps'; run.toml:3:1; did you mean 'steps'?");
  EXPECT_EQ(error.exit_code(), 2);
}

TEST(ErrorTest, ShowsControlCharactersAsQuestionMarks) {
  EXPECT_STREQ(Error(ErrorKind::kUsage, "a\x1b[3m\tb\x7f", "\u009bc\u0080", "\u00e9\u20ac").what(),
               "a?[3m b?; ?c?; \u00e9\u20ac");
}

TEST(ErrorTest, LeavesOutEmptyParts) {
  EXPECT_STREQ(Error(ErrorKind::kInternal, "broken").what(), "broken");
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
