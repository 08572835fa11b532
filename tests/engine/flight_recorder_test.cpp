#include "engine/flight_recorder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "sluice/program.h"

namespace sluice::test {
namespace {

Program two_ranks() {
  LowerOptions options;
  options.loss = options.optimizer_step = options.norm = true;
  return lower(make_schedule("1F1B", {2, 0, 2}), options);
}

int index_of(const Program& program, int rank, const std::string& action) {
  const auto& row = program.ranks.at(static_cast<std::size_t>(rank));
  const auto found =
      std::find_if(row.begin(), row.end(), [&](const Action& a) { return to_text(a) == action; });
  EXPECT_NE(found, row.end()) << action;
  return static_cast<int>(found - row.begin());
}

// Reports to the recorder of rank 1 every action before `action`, and the beginning of `action`.
void run_until(FlightRecorder& recorder, const Program& program, const std::string& action) {
  const int last = index_of(program, 1, action);
  for (int i = 0; i <= last; ++i) {
    recorder.begin(i, program.ranks[1][i]);
    if (i < last) recorder.end(i, program.ranks[1][i]);
  }
}

TEST(FlightRecorderTest, KnowsTheRowItsPeersAndCounterparts) {
  const Program program = two_ranks();
  FlightRecorder recorder(16);
  EXPECT_EQ(recorder.record().pass, 0);
  recorder.begin_program(program, 1);
  recorder.begin_step(3);
  const FlightRecord record = recorder.record();
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.num_ranks, 2);
  EXPECT_EQ(record.stages, std::vector<int>{1});
  EXPECT_EQ(record.step, 3);
  EXPECT_TRUE(record.in_pass);
  const auto receive = static_cast<std::size_t>(index_of(program, 1, "1RECV_F0"));
  EXPECT_EQ(record.row.instructions.at(receive), "1RECV_F0");
  EXPECT_EQ(record.row.peers.at(receive), 0);
  EXPECT_EQ(record.row.counterparts.at(receive), "0SEND_F0");
  FlightRecorder other(16);
  other.begin_program(program, 0);
  EXPECT_EQ(other.record().row.fingerprint, record.row.fingerprint);
  const Program forwards = lower(make_forward_schedule(program.stage_map, 2), {});
  other.begin_program(forwards, 0);
  EXPECT_NE(other.record().row.fingerprint, record.row.fingerprint);
}

TEST(FlightRecorderTest, OfAMessageItsReceiveIsWhatIsWaitedFor) {
  const Program program = two_ranks();
  FlightRecorder recorder(16);
  recorder.begin_program(program, 1);
  recorder.begin_step(3);
  run_until(recorder, program, "1F0");
  recorder.waiting(Action::forward(1, 0));
  EXPECT_EQ(recorder.record().entries.back().state, FlightState::kWaiting);
  EXPECT_EQ(recorder.record().entries.back().waits_for, std::vector<std::string>{"1RECV_F0"});
  EXPECT_EQ(recorder.now().find("rank 1, step 3, instruction "), 0u) << recorder.now();
  EXPECT_NE(recorder.now().find(" s for 1RECV_F0 from rank 0"), std::string::npos);
  recorder.arrived(Action::forward(1, 0), {at::zeros({4})});
  EXPECT_TRUE(recorder.record().entries.back().waits_for.empty());
  EXPECT_EQ(recorder.record().entries.back().bytes, 16);
}

TEST(FlightRecorderTest, WhatFailsInAWaitKeepsWhatItWaitedFor) {
  const Program program = two_ranks();
  FlightRecorder recorder(16);
  recorder.begin_program(program, 1);
  recorder.begin_step(3);
  run_until(recorder, program, "1F0");
  recorder.waiting(Action::forward(1, 0));
  recorder.failed(1, Action::forward(1, 0));
  EXPECT_EQ(recorder.record().entries.back().state, FlightState::kFailed);
  EXPECT_EQ(recorder.record().entries.back().waits_for, std::vector<std::string>{"1RECV_F0"});
}

TEST(FlightRecorderTest, OfPostsThoseThatAreUsedAreWhatIsWaitedFor) {
  const Program program = two_ranks();
  FlightRecorder recorder(64);
  recorder.begin_program(program, 1);
  recorder.begin_step(3);
  run_until(recorder, program, "OPTIMIZER_STEP");
  recorder.waiting(Action::make(ActionKind::kOptimizerStep));
  EXPECT_EQ(recorder.record().entries.back().waits_for,
            (std::vector<std::string>{"REDUCE_LOSS", "REDUCE_NORM"}));
}

TEST(FlightRecorderTest, KeepsTheLastOfThem) {
  const Program program = two_ranks();
  FlightRecorder recorder(4);
  recorder.begin_program(program, 1);
  recorder.begin_step(3);
  run_until(recorder, program, "OPTIMIZER_STEP");
  const FlightRecord record = recorder.record();
  ASSERT_EQ(record.entries.size(), 4u);
  EXPECT_EQ(record.entries.back().action, "OPTIMIZER_STEP");
  EXPECT_EQ(record.entries.back().index, record.entries.front().index + 3);
}

TEST(FlightRecorderTest, IsReadWhileTheRankRuns) {
  const Program program = two_ranks();
  FlightRecorder recorder(8);
  std::atomic<bool> over = false;
  std::thread reader([&] {
    while (!over) {
      const FlightRecord record = recorder.record();
      for (std::size_t i = 1; i < record.entries.size(); ++i) {
        const FlightEntry &a = record.entries[i - 1], &b = record.entries[i];
        EXPECT_TRUE(a.pass < b.pass || a.index + 1 == b.index);
      }
    }
  });
  for (int step = 1; step <= 500; ++step) {
    recorder.begin_program(program, 1);
    recorder.begin_step(step);
    run_until(recorder, program, "OPTIMIZER_STEP");
    recorder.end_step();
  }
  over = true;
  reader.join();
  EXPECT_EQ(recorder.record().pass, 500);
  EXPECT_EQ(recorder.now(), "");
}

}  // namespace
}  // namespace sluice::test
