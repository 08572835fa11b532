#include "base/option_names.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

std::string flag_of(std::string_view option) {
  if (option == "seq_len") return "--seq-len";
  if (option == "schedule") return "--schedule";
  return {};
}

TEST(OptionNamesTest, ABackquotedOptionGetsTheNameOfTheCaller) {
  EXPECT_EQ(with_names("`seq_len` = 65 under `schedule` \"1F1B\"", flag_of),
            "--seq-len = 65 under --schedule \"1F1B\"");
  EXPECT_EQ(with_names("", flag_of), "");
  EXPECT_EQ(with_names("`seq_len`", flag_of), "--seq-len");
}

TEST(OptionNamesTest, WhatIsNotInBackquotesOrHasNoNameStays) {
  EXPECT_EQ(with_names("the seq_len of /data/seq_len/schedule.csv", flag_of),
            "the seq_len of /data/seq_len/schedule.csv");
  EXPECT_EQ(with_names("set `shards`, see `sluice plan`", flag_of),
            "set `shards`, see `sluice plan`");
  EXPECT_EQ(with_names("`` `seq_len", flag_of), "`` `seq_len");
  EXPECT_EQ(with_names("one ` and then `seq_len`", flag_of), "one ` and then --seq-len");
}

TEST(OptionNamesTest, AnErrorKeepsItsKind) {
  const Error error(
      ErrorKind::kMemory,
      {.what = "`seq_len` = 65", .where = "`seq_len`", .remedy = "set `seq_len` to at most 64"});
  const Error named = with_names(error, flag_of);
  EXPECT_EQ(named.kind(), ErrorKind::kMemory);
  EXPECT_STREQ(named.what(), "--seq-len = 65; --seq-len; set --seq-len to at most 64");
}

TEST(OptionNamesTest, TheFirstOptionOfATextIsFound) {
  EXPECT_EQ(first_option("give `seq_len` or `schedule`"), "seq_len");
  EXPECT_EQ(first_option("no option"), "");
  EXPECT_EQ(first_option("half `an option"), "");
}

}  // namespace
}  // namespace sluice
