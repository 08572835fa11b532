#include "base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sluice {
namespace {

TEST(TextTest, CountsInSingularAndPlural) {
  EXPECT_EQ(counted(1, "stage"), "1 stage");
  EXPECT_EQ(counted(0, "stage"), "0 stages");
  EXPECT_EQ(counted(2, "microbatch"), "2 microbatches");
}

TEST(TextTest, WritesBytesInTheLargestUnitThatIsNotBelowOne) {
  EXPECT_EQ(human_bytes(0), "0B");
  EXPECT_EQ(human_bytes(1023), "1023B");
  EXPECT_EQ(human_bytes(1536), "1.50KiB");
  EXPECT_EQ(human_bytes(std::int64_t{7} << 30), "7.00GiB");
  EXPECT_EQ(human_bytes(-2048), "-2.00KiB");
}

TEST(TextTest, GroupsThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(2449), "2,449");
  EXPECT_EQ(with_commas(-1234567), "-1,234,567");
}

TEST(TextTest, WritesNumbersThatReadBackTheSame) {
  for (const double value : {0.0, 3e-4, 1e-8, 0.1, 1.0 / 3.0, 1e300}) {
    EXPECT_EQ(std::stod(shortest(value)), value) << shortest(value);
  }
  EXPECT_EQ(shortest(0.25), "0.25");
  EXPECT_EQ(fixed(2.0 / 3.0, 3), "0.667");
  EXPECT_EQ(fixed(std::numeric_limits<double>::max(), 0).size(), 309u);
}

TEST(TextTest, AlignsColumnsByCharactersNotBytes) {
  TextTable table({{"name", Align::kLeft}, {"size", Align::kRight}});
  table.add_row({"\u00e9", "5"});
  table.add_row({"longer", "12345"});
  EXPECT_EQ(table.to_string("  "),
            "  name     size\n"
            "  \u00e9           5\n"
            "  longer  12345\n");
}

TEST(TextTest, LeavesOutTheTitleLineWithoutTitles) {
  TextTable table({{""}, {""}});
  table.add_row({"a"});
  table.add_row({"bb", "c"});
  EXPECT_EQ(table.to_string(), "a\nbb  c\n");
}

TEST(TextTest, WrapsAtSpacesAndIndentsWhatFollows) {
  EXPECT_EQ(wrapped("one two three", 40), "one two three\n");
  EXPECT_EQ(wrapped("one two three", 7), "one two\n  three\n");
  EXPECT_EQ(wrapped("one two three", 9, "  "), "  one two\n    three\n");
  EXPECT_EQ(wrapped("indivisible a", 4), "indivisible\n  a\n");
}

TEST(TextTest, ColumnsThatDoNotFitFollowAfterTheFirst) {
  TextTable table({{"rank", Align::kRight}, {"first", Align::kRight}, {"second", Align::kRight}});
  table.add_row({"0", "12345", "123456"});
  EXPECT_EQ(table.to_string("", 19),
            "rank  first  second\n"
            "   0  12345  123456\n");
  EXPECT_EQ(table.to_string("", 18),
            "rank  first\n"
            "   0  12345\n"
            "rank  second\n"
            "   0  123456\n");
}

TEST(TextTest, ALastColumnOfTextIsWrapped) {
  TextTable table({{"n", Align::kRight}, {"names"}});
  table.add_row({"1", "alpha, beta, gamma, delta, epsilon"});
  EXPECT_EQ(table.to_string(" ", 30),
            " n  names\n"
            " 1  alpha, beta, gamma, delta,\n"
            "    epsilon\n");
}

TEST(TextTest, SplitsAndJoinsAreInverse) {
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(split("a,,b", ',').size(), 3u);
  EXPECT_EQ(join(split("a,,b", ','), ","), "a,,b");
  EXPECT_EQ(trim(" \t x y \n"), "x y");
  EXPECT_EQ(to_lower("GPipe"), "gpipe");
  EXPECT_EQ(replace_all("a-a-b", "a", "aa"), "aa-aa-b");
  EXPECT_EQ(shape_text({2, 16}), "[2, 16]");
}

}  // namespace
}  // namespace sluice
