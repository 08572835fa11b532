#include "job/line_table.h"

#include <gtest/gtest.h>

#include "job/judge_clock.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = LineTable::Clock;

const Clock::time_point kStart{};

LineTable::Line line(int process, std::vector<int> ranks,
                     milliseconds heartbeat = milliseconds(1000)) {
  return {.process = process,
          .name = "process " + std::to_string(process),
          .ranks = std::move(ranks),
          .heartbeat = heartbeat};
}

TEST(JudgeClockTest, LeavesOutTheTimeInWhichTheJudgeWasStopped) {
  SilenceClock clock(kStart);
  clock.tick(kStart + milliseconds(50), milliseconds(100));
  EXPECT_EQ(clock.counted(), milliseconds(50));
  clock.tick(kStart + milliseconds(60'000), milliseconds(100));
  EXPECT_EQ(clock.counted(), milliseconds(150));
  clock.tick(kStart + milliseconds(60'020), milliseconds(100));
  EXPECT_EQ(clock.counted(), milliseconds(170));
}

TEST(LineTableTest, JudgesSilence) {
  LineTable table(milliseconds(0));
  table.open(line(0, {0}), milliseconds(0));
  table.open(line(1, {1}), milliseconds(0));
  EXPECT_FALSE(table.judge(kStart, milliseconds(1000)));
  table.heard(0, "rank 0 waits for 1RECV_B3 of step 4 from rank 1", milliseconds(900));
  const auto lost = table.judge(kStart, milliseconds(1001));
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->process, 1);
  EXPECT_EQ(lost->rank, 1);
  EXPECT_EQ(lost->kind, ErrorKind::kPeer);
  EXPECT_EQ(lost->teller, 0);
  EXPECT_TRUE(lost->message.starts_with(
      "process 1 is lost: it has been silent for more than 1 s; rank 0 waits for 1RECV_B3 of step "
      "4 from rank 1; "))
      << lost->message;
  EXPECT_FALSE(table.judge(kStart, milliseconds(1001))) << "it is forgotten";
}

TEST(LineTableTest, AnEndIsJudgedWhenAllOthersHaveSaidWhatTheyWaitFor) {
  LineTable table(milliseconds(0));
  for (int process = 0; process < 3; ++process)
    table.open(line(process, {process}), milliseconds(0));
  table.heard(0, "before", milliseconds(1));
  table.end(1, kStart);
  EXPECT_TRUE(table.has_suspect());
  EXPECT_FALSE(table.judge(kStart, milliseconds(1)));
  table.heard(0, "rank 0 waits for x from rank 1", milliseconds(1));
  EXPECT_FALSE(table.judge(kStart, milliseconds(1)));
  table.heard(2, "rank 2 waits for y from rank 10", milliseconds(1));
  const auto lost = table.judge(kStart, milliseconds(1));
  ASSERT_TRUE(lost);
  EXPECT_TRUE(lost->message.starts_with(
      "process 1 is lost: its connection ended; rank 0 waits for x from rank 1; "))
      << "who waits for another rank is left out: " << lost->message;
}

TEST(LineTableTest, AnEndIsJudgedAlsoWhenOthersSayNothing) {
  LineTable table(milliseconds(0));
  table.open(line(0, {0}), milliseconds(0));
  table.open(line(1, {1}), milliseconds(0));
  table.end(1, kStart);
  EXPECT_FALSE(table.judge(kStart + milliseconds(299), milliseconds(1)));
  EXPECT_TRUE(table.judge(kStart + milliseconds(300), milliseconds(1)));
}

TEST(LineTableTest, GraceIsForThoseWhoKnowMore) {
  LineTable table(milliseconds(2000));
  table.open(line(1, {1}), milliseconds(0));
  table.end(1, kStart);
  EXPECT_FALSE(table.judge(kStart + milliseconds(1999), milliseconds(1)));
  const JobFailure lost = table.lost(1, "was ended by signal 9 (Killed)");
  EXPECT_TRUE(lost.message.starts_with("process 1 was ended by signal 9 (Killed); "))
      << lost.message;
  EXPECT_FALSE(table.judge(kStart + milliseconds(3000), milliseconds(1)));
  EXPECT_TRUE(table.lost(7, "ended with exit code 3")
                  .message.starts_with("process 7 ended with exit code 3; "));
}

TEST(LineTableTest, WhoFinishesIsNotLost) {
  LineTable table(milliseconds(0));
  table.open(line(1, {1}), milliseconds(0));
  table.finish(1);
  EXPECT_TRUE(table.empty());
  table.end(1, kStart);
  EXPECT_FALSE(table.judge(kStart + std::chrono::hours(1), std::chrono::hours(1)));
}

TEST(LineTableTest, RefusesTwoWhoSayTheyAreTheSame) {
  LineTable table(milliseconds(0));
  EXPECT_FALSE(table.open(line(1, {1}), milliseconds(0)));
  LineTable::Line second = line(1, {1});
  second.name = "process 1, pid 5";
  const auto failure = table.open(second, milliseconds(0));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, ErrorKind::kUsage);
  EXPECT_TRUE(
      failure->message.starts_with("two processes joined as process 1: process 1, "
                                   "and process 1, pid 5; "))
      << failure->message;
}

TEST(LineTableTest, TellsAtMostThreeOfThoseThatWait) {
  LineTable table(milliseconds(0));
  table.open(line(0, {0}), milliseconds(0));
  for (int process = 1; process < 8; ++process) {
    table.open(line(process, {process}), milliseconds(0));
    table.heard(process, "rank " + std::to_string(process) + " waits for x from rank 0",
                milliseconds(0));
  }
  const JobFailure lost = table.lost(0, "is lost");
  EXPECT_NE(lost.message.find("; rank 1 waits for x from rank 0, rank 2 waits for x from rank 0, "
                              "rank 3 waits for x from rank 0, 4 more; "),
            std::string::npos)
      << lost.message;
  EXPECT_EQ(lost.teller, 1);
}

TEST(LineTableTest, SaysWhoWaitsForARankWhoeverItIs) {
  LineTable table(milliseconds(0));
  for (int process = 0; process < 3; ++process)
    table.open(line(process, {2 * process, 2 * process + 1}), milliseconds(0));
  const std::string first = "rank 0 waits for x from rank 3",
                    own = "rank 2 waits for y from rank 3";
  table.heard(0, first, milliseconds(0));
  table.heard(1, own, milliseconds(0));
  table.heard(2, "rank 4 waits for z from rank 0", milliseconds(0));
  EXPECT_EQ(table.who_waits_for(3), first + ", " + own);
  EXPECT_EQ(table.who_waits_for(0), "rank 4 waits for z from rank 0");
}

TEST(LineTableTest, TheTellerLives) {
  LineTable table(milliseconds(0));
  for (int process = 0; process < 4; ++process)
    table.open(line(process, {process}), milliseconds(0));
  table.end(0, kStart);
  table.finish(1);
  EXPECT_EQ(table.lowest_alive(-1), 2);
  EXPECT_EQ(table.lowest_alive(2), 3);
  EXPECT_EQ(table.lowest_alive(2, 3), -1);
  EXPECT_FALSE(table.lives(0));
  EXPECT_EQ(table.lost(2, "is lost").teller, 3);
}

}  // namespace
}  // namespace sluice
