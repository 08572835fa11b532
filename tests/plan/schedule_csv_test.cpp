#include <gtest/gtest.h>

#include <fstream>

#include "sluice/error.h"
#include "sluice/schedule.h"

namespace sluice::schedule_csv_test {
namespace {

constexpr const char* kTwoRanks = "0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n";

std::string refusal(std::string_view text, const std::vector<int>& map = {}) {
  try {
    parse_schedule_csv(text, "order.csv", map);
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  }
  return "";
}

TEST(ScheduleCsvTest, KeepsIdleSlotsWhereTheyAre) {
  const Schedule schedule = parse_schedule_csv(kTwoRanks, "order.csv");
  EXPECT_EQ(schedule.name, "order.csv");
  EXPECT_EQ(schedule.num_ranks(), 2);
  EXPECT_EQ(schedule.num_stages(), 2);
  EXPECT_EQ(schedule.num_microbatches, 2);
  ASSERT_EQ(schedule.rows[0].size(), 7u);
  EXPECT_EQ(schedule.rows[0][2], Action());
  EXPECT_EQ(schedule.rows[0][6], Action::backward(0, 1));
  EXPECT_EQ(schedule.rows[1][0], Action());
}

TEST(ScheduleCsvTest, ReadsEitherLineEndingByteOrderMarkQuotesAndBlankEnds) {
  const Schedule expected = parse_schedule_csv(kTwoRanks, "order.csv");
  for (const char* text :
       {"0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1\r\n", "0F0,0F1,,,0B0,,0B1\r,1F0,1B0,1F1,1B1\r",
        "0F0,0F1,,,0B0,,0B1\r,1F0,1B0,1F1,1B1\n\r\r\n",
        "\xef\xbb\xbf"
        "0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1",
        "0F0, 0F1 ,,\"\",\"0B0\",,0B1\n,1F0,1B0,1F1,1B1\n\n  \n\r\n"}) {
    EXPECT_EQ(parse_schedule_csv(text, "order.csv").rows, expected.rows) << text;
  }
}

TEST(ScheduleCsvTest, WritesWhatItReads) {
  for (const std::vector<std::vector<Action>>& rows :
       {parse_schedule_csv(kTwoRanks, "order.csv").rows,
        std::vector<std::vector<Action>>{{Action::forward(0, 0)},
                                         {},
                                         {Action()},
                                         {Action(), Action()},
                                         {Action::make(ActionKind::kOptimizerStep)}}}) {
    EXPECT_EQ(parse_schedule_csv(to_csv(rows), "order.csv").rows, rows);
  }
  EXPECT_EQ(to_csv({{Action::forward(0, 0), Action()}, {}, {Action()}}), "0F0,\r\n\r\n\"\"\r\n");
}

TEST(ScheduleCsvTest, PlacesAStageWhereItComputesEvenIfAnotherRankNamesItFirst) {
  EXPECT_EQ(parse_schedule_csv("0F0,1SEND_F0\n1F0\n", "order.csv").stage_map.ranks(),
            (std::vector<int>{0, 1}));
  EXPECT_EQ(parse_schedule_csv("(0F1;3B0)OVERLAP_F_B\n1F0,2F0\n", "order.csv").stage_map.ranks(),
            (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(parse_schedule_csv("0F0,1UNSHARD\n", "order.csv").stage_map.ranks(),
            (std::vector<int>{0, 0}));
}

TEST(ScheduleCsvTest, TakesAGivenMapAndGivesItsOtherRanksEmptyRows) {
  const Schedule schedule = parse_schedule_csv("0F0,0B0\n", "order.csv", {0, 2});
  EXPECT_EQ(schedule.num_ranks(), 3);
  EXPECT_EQ(schedule.num_stages(), 2);
  EXPECT_EQ(schedule.stage_map.ranks(), (std::vector<int>{0, 2}));
  ASSERT_EQ(schedule.rows.size(), 3u);
  EXPECT_TRUE(schedule.rows[2].empty());
}

TEST(ScheduleCsvTest, KeepsActionsOfTheWrongRankForTheProof) {
  const Schedule schedule = parse_schedule_csv("1F0\n0F0\n", "order.csv", {0, 1});
  EXPECT_EQ(schedule.rows[0][0], Action::forward(1, 0));
  EXPECT_EQ(schedule.stage_map.ranks(), (std::vector<int>{0, 1}));
}

TEST(ScheduleCsvTest, SaysRowCellAndReason) {
  EXPECT_EQ(refusal("0F0,0B0\n1F0,,,,1F0junk\n"),
            "3 '1F0junk' is not an action: 'junk' follows the action; order.csv:2:5; write "
            "{stage}{action}{microbatch}, as 2F0, 1SEND_F3, 0UNSHARD or (0F7;7B3)OVERLAP_F_B");
  EXPECT_NE(refusal("0F0;0B0\n").find("order.csv:1:1"), std::string::npos);
  EXPECT_NE(refusal("0F0,\"0B0\n").find("order.csv:1:2"), std::string::npos);
  EXPECT_NE(refusal(std::string("0F0,\0,0B0\n", 10)).find("order.csv:1:2"), std::string::npos);
}

TEST(ScheduleCsvTest, RefusesFilesWithoutASchedule) {
  for (const char* text : {"", "\n", " \n\n", ",,,\n,,\n", "\"\"\n", "\xef\xbb\xbf"}) {
    EXPECT_NE(refusal(text).find("3 the schedule has no action; order.csv"), std::string::npos);
  }
}

TEST(ScheduleCsvTest, LeavesStagesThatNoRowOrMapNamesWithoutARank) {
  EXPECT_EQ(parse_schedule_csv("0F0,2F0\n", "order.csv").stage_map.ranks(),
            (std::vector<int>{0, -1, 0}));
  const Schedule schedule = parse_schedule_csv("0F0\n,4F0\n", "order.csv", {0, 1});
  EXPECT_EQ(schedule.num_stages(), 5);
  EXPECT_EQ(schedule.stage_map.ranks(), (std::vector<int>{0, 1, -1, -1, -1}));
}

TEST(ScheduleCsvTest, RefusesAMapOfRanksThatCannotBe) {
  EXPECT_NE(refusal("0F0\n", {0, -1}).find("2 the stage-to-rank map names rank -1"),
            std::string::npos);
  EXPECT_NE(refusal("0F0\n", {2147483647}).find("2 the stage-to-rank map"), std::string::npos);
}

TEST(ScheduleCsvTest, RefusesNumbersThatAreOutOfProportion) {
  EXPECT_NE(refusal("2147483647F0\n").find("stage 2147483647 is beyond"), std::string::npos);
  EXPECT_NE(refusal("0F2147483647\n").find("microbatch 2147483647 is beyond"), std::string::npos);
  EXPECT_NE(refusal("0F1048575,65535F0\n").find("only 2 actions for 65536 stages x 1048576"),
            std::string::npos);
  EXPECT_NE(refusal("0F0" + std::string(1 << 17, '\n') + "1F0")
                .find("more than 65536 rows; order.csv:65537:1"),
            std::string::npos);
  EXPECT_NE(refusal("0F0" + std::string(40 << 20, ',')).find("more than 33554432 cells"),
            std::string::npos);
}

TEST(ScheduleCsvTest, RefusesFilesThatCannotBeRead) {
  EXPECT_THROW(read_schedule_csv("/nonexistent/order.csv"), Error);
  EXPECT_THROW(read_schedule_csv(::testing::TempDir()), Error);
  try {
    read_schedule_csv("/dev/zero");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("larger than 256.00MiB"), std::string::npos);
  }
}

TEST(ScheduleCsvTest, ReadsAFileAndNamesItInErrors) {
  const std::string path = ::testing::TempDir() + "/sluice_schedule_csv_test.csv";
  std::ofstream(path, std::ios::binary) << kTwoRanks;
  EXPECT_EQ(read_schedule_csv(path).num_ranks(), 2);
  std::ofstream(path, std::ios::binary) << "0F\n";
  try {
    read_schedule_csv(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), path + ":1:1");
  }
}

}  // namespace
}  // namespace sluice::schedule_csv_test
