#include "report/flight_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/action_kinds.h"
#include "plan/neighbours.h"
#include "sluice/program.h"
#include "support/expect_error.h"

namespace sluice::test::flight_report_test {
namespace {

Program program_of(int num_ranks, int num_microbatches) {
  ScheduleShape shape;
  shape.num_ranks = num_ranks;
  shape.num_microbatches = num_microbatches;
  LowerOptions options;
  options.loss = options.optimizer_step = options.norm = true;
  return lower(make_schedule("1F1B", shape), options);
}

// A run in which every rank has finished its row in step 5.
class RunOfRanks {
 public:
  explicit RunOfRanks(int num_ranks) : program_(program_of(num_ranks, 4)) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      FlightRecord& record = records.emplace_back();
      record.run = "run";
      record.rank = rank;
      record.num_ranks = num_ranks;
      record.coordinates[0] = rank;
      record.stages = {rank};
      record.pass = record.step = 5;
      record.written = 100;
      record.row.fingerprint = "same";
      for (const Action& action : program_.ranks[rank]) {
        record.row.instructions.push_back(to_text(action));
        const bool moves = is_transfer(action.kind);
        const int stage = moves ? detail::peer_stage(program_, action) : -1;
        record.row.peers.push_back(moves ? program_.stage_map.rank_of(stage) : -1);
        record.row.counterparts.push_back(moves ? to_text(detail::counterpart(program_, action))
                                                : "");
      }
    }
  }

  FlightEntry& at(int rank, const std::string& action, FlightState state,
                  std::vector<std::string> waits_for = {}, double seconds = 1) {
    FlightRecord& record = records.at(static_cast<std::size_t>(rank));
    record.in_pass = true;
    FlightEntry entry;
    entry.pass = entry.step = 5;
    const auto& row = record.row.instructions;
    entry.index = static_cast<int>(std::find(row.begin(), row.end(), action) - row.begin());
    EXPECT_LT(entry.index, static_cast<int>(row.size())) << action;
    entry.action = action;
    entry.state = state;
    entry.seconds = seconds;
    entry.waited = waits_for.empty() ? 0 : seconds;
    entry.waits_for = std::move(waits_for);
    record.entries.push_back(entry);
    return record.entries.back();
  }
  FlightReport report() const { return align_flight_records(records); }

  std::vector<FlightRecord> records;

 private:
  Program program_;
};

const FlightMismatch& first(const FlightReport& report) { return report.mismatches.at(0); }

TEST(FlightReportTest, RanksThatWaitForNobodyAreAligned) {
  const FlightReport report = RunOfRanks(2).report();
  EXPECT_TRUE(report.mismatches.empty());
  EXPECT_TRUE(report.notes.empty());
  EXPECT_NE(describe(report, 100).find("no rank waits for another\n"), std::string::npos);
}

TEST(FlightReportTest, ARankThatRunsOnIsWhatTheOthersWaitFor) {
  RunOfRanks run(3);
  run.at(0, "0B1", FlightState::kWaiting, {"0RECV_B1"}, 6);
  run.at(1, "1F2", FlightState::kRunning, {}, 7.25);
  run.at(2, "2F2", FlightState::kWaiting, {"2RECV_F2"}, 5);
  const FlightReport report = run.report();
  ASSERT_EQ(report.mismatches.size(), 1u);
  EXPECT_EQ(first(report).kind, MismatchKind::kNotSent);
  EXPECT_EQ(first(report).rank, 1);
  EXPECT_EQ(
      first(report).text.find("rank 0 waits 6.0 s for '0RECV_B1' of step 5 from rank 1, which "
                              "has not sent it: it is at instruction "),
      0u)
      << first(report).text;
  EXPECT_NE(first(report).text.find("'1F2' of step 5, running for 7.2 s"), std::string::npos)
      << first(report).text;
}

TEST(FlightReportTest, AWaitIsFollowedToTheRankThatDoesNotWait) {
  RunOfRanks run(3);
  run.at(0, "0B0", FlightState::kWaiting, {"0RECV_B0"}, 6);
  run.at(1, "1B0", FlightState::kWaiting, {"1RECV_B0"}, 5);
  run.at(2, "2F0", FlightState::kRunning, {}, 9);
  const FlightReport report = run.report();
  ASSERT_EQ(report.mismatches.size(), 1u);
  EXPECT_EQ(first(report).rank, 2);
  EXPECT_EQ(first(report).waited, 6) << "the longest wait that leads there";
}

TEST(FlightReportTest, ARankWithoutARecordIsMissing) {
  RunOfRanks run(2);
  run.at(0, "0B0", FlightState::kFailed, {"0RECV_B0"}, 3);
  run.records.pop_back();
  const FlightReport report = run.report();
  EXPECT_EQ(report.missing, std::vector<int>{1});
  EXPECT_EQ(first(report).kind, MismatchKind::kMissing);
  EXPECT_EQ(first(report).text,
            "rank 0 waits 3.0 s for '0RECV_B0' of step 5 from rank 1, which left no record");
  EXPECT_EQ(report.mismatches.size(), 1u) << "named once";
}

TEST(FlightReportTest, AnOldRecordOfAnotherRunCountsAsMissing) {
  RunOfRanks run(2);
  run.records[1].run = "an earlier one";
  run.records[1].written = 50;
  const FlightReport report = run.report();
  EXPECT_EQ(report.missing, std::vector<int>{1});
  EXPECT_EQ(report.notes, std::vector<std::string>{"the record of rank 1 belongs to another run"});
}

TEST(FlightReportTest, TheFirstFailureComesBeforeWhatFollowedFromIt) {
  RunOfRanks run(2);
  run.at(0, "0B0", FlightState::kFailed, {"0RECV_B0"}, 3);
  run.at(1, "1F1", FlightState::kFailed, {}, 0.1);
  for (FlightRecord& record : run.records) record.failure = FlightFailure{1, 1, "injected fault"};
  const FlightReport report = run.report();
  EXPECT_EQ(first(report).kind, MismatchKind::kFailed);
  EXPECT_EQ(first(report).rank, 1);
  EXPECT_EQ(first(report).text, "rank 1 failed: injected fault");
}

TEST(FlightReportTest, RanksOfDifferentProgramsAreNamed) {
  RunOfRanks run(3);
  run.records[1].row.fingerprint = "another";
  EXPECT_EQ(first(run.report()).kind, MismatchKind::kProgram);
  EXPECT_EQ(first(run.report()).text, "rank 1 runs another program than ranks 0, 2");
  EXPECT_EQ(first(run.report()).rank, 1);
}

TEST(FlightReportTest, TheFirstMessageOfAChannelThatDiffersIsNamed) {
  RunOfRanks run(2);
  FlightRow& row = run.records[1].row;
  const auto receive = [&](const std::string& text) {
    return std::find(row.instructions.begin(), row.instructions.end(), text) -
           row.instructions.begin();
  };
  std::swap(row.instructions[receive("1RECV_F1")], row.instructions[receive("1RECV_F2")]);
  const FlightReport report = run.report();
  EXPECT_EQ(first(report).kind, MismatchKind::kChannel);
  EXPECT_EQ(first(report).text,
            "message 1 of the channel of activations from rank 0 to rank 1: the sender sends "
            "'1RECV_F1', the receiver expects '1RECV_F2'");
}

TEST(FlightReportTest, AMessageThatWasSentAndDidNotArriveIsLost) {
  RunOfRanks run(2);
  run.at(0, "0B0", FlightState::kWaiting, {"0RECV_B0"}, 2);
  run.at(1, "1F1", FlightState::kWaiting, {"1RECV_F1"}, 4);
  run.records[0].entries.back().index = 9;  // beyond the SEND of microbatch 1
  const FlightReport report = run.report();
  const auto lost = std::find_if(report.mismatches.begin(), report.mismatches.end(),
                                 [](const auto& m) { return m.kind == MismatchKind::kLost; });
  ASSERT_NE(lost, report.mismatches.end());
  EXPECT_EQ(lost->rank, 0);
  EXPECT_NE(lost->text.find("which has sent it ('0SEND_F1'): it was lost on the way"),
            std::string::npos)
      << lost->text;
}

TEST(FlightReportTest, RanksThatWaitForEachOtherAreACircle) {
  RunOfRanks run(2);
  run.at(0, "0B0", FlightState::kWaiting, {"0RECV_B0"}, 2);
  run.at(1, "1F0", FlightState::kWaiting, {"1RECV_F0"}, 4);
  run.records[0].entries.back().index = 0;  // before its first SEND
  const FlightReport report = run.report();
  ASSERT_EQ(report.mismatches.size(), 1u);
  EXPECT_EQ(first(report).kind, MismatchKind::kCircle);
  EXPECT_EQ(first(report).text,
            "ranks wait for each other: rank 0 waits for 0RECV_B0, rank 1 waits for 1RECV_F0");
}

TEST(FlightReportTest, ARankThatHasNotComeToACollectiveIsNamed) {
  RunOfRanks run(3);
  run.at(0, "REDUCE_NORM", FlightState::kWaiting, {"REDUCE_LOSS"}, 2);
  run.at(1, "1B3", FlightState::kRunning, {}, 8);
  run.at(2, "REDUCE_NORM", FlightState::kWaiting, {"REDUCE_LOSS"}, 3);
  const FlightReport report = run.report();
  ASSERT_EQ(report.mismatches.size(), 1u);
  EXPECT_EQ(first(report).rank, 1);
  EXPECT_EQ(first(report).text.find("rank 2 waits 3.0 s for 'REDUCE_LOSS' of step 5, to which rank "
                                    "1 has not come: it is at instruction"),
            0u)
      << first(report).text;
}

TEST(FlightReportTest, ACallWithinAnInstructionNamesTheModuleAndTheRankThatIsMissing) {
  RunOfRanks run(3);
  FlightEntry& waiting = run.at(0, "0F1", FlightState::kWaiting, {}, 4);
  waiting.waited = 3.2;
  waiting.call = "0F1 layers.7.o_proj (3) over tp: all_reduce of float32[4]";
  waiting.missing = {2};
  run.at(1, "1F1", FlightState::kWaiting, {"1RECV_F1"}, 3);
  run.at(2, "2F0", FlightState::kRunning, {}, 5);
  const FlightReport report = run.report();
  EXPECT_EQ(first(report).kind, MismatchKind::kNotSent);
  EXPECT_EQ(first(report).rank, 2);
  EXPECT_EQ(first(report).text.find(
                "rank 0 waits 3.2 s in instruction 2 '0F1' of step 5, in 0F1 layers.7.o_proj (3) "
                "over tp: all_reduce of float32[4], missing rank 2: rank 2 is at instruction "),
            0U)
      << first(report).text;
  EXPECT_NE(describe(report, 200).find("o_proj (3) over tp: all_reduce of float32[4], missing "),
            std::string::npos)
      << describe(report, 200);
  run.records.pop_back();
  EXPECT_EQ(first(run.report()).kind, MismatchKind::kMissing);
  EXPECT_EQ(first(run.report()).rank, 2);
}

TEST(FlightReportTest, ACollectiveToWhichAllHaveComeIsNamedItself) {
  RunOfRanks run(2);
  run.at(0, "OPTIMIZER_STEP", FlightState::kWaiting, {"REDUCE_NORM"}, 2);
  run.at(1, "OPTIMIZER_STEP", FlightState::kWaiting, {"REDUCE_NORM"}, 2);
  EXPECT_EQ(first(run.report()).kind, MismatchKind::kCollective);
}

TEST(FlightReportTest, OnlyMembersOfACollectiveAreAsked) {
  // Two replicas with two ranks each. Gradients are reduced over the replicas of each stage.
  std::vector<FlightRecord> records(4);
  for (int rank = 0; rank < 4; ++rank) {
    FlightRecord& record = records[static_cast<std::size_t>(rank)];
    record.run = "run";
    record.rank = rank;
    record.num_ranks = 4;
    record.coordinates = {rank / 2, rank % 2, 0, 0, 0};
    record.pass = record.step = 1;
    record.in_pass = true;
    record.row.fingerprint = "same";
    record.row.instructions = {"0B0", "0REDUCE_GRAD", "OPTIMIZER_STEP"};
    record.row.peers = {-1, -1, -1};
    record.row.counterparts = {"", "", ""};
    FlightEntry entry;
    entry.pass = entry.step = 1;
    entry.action = "0B0";
    record.entries = {entry};
  }
  FlightEntry& waiting = records[0].entries[0];
  waiting.index = 2;
  waiting.action = "OPTIMIZER_STEP";
  waiting.state = FlightState::kWaiting;
  waiting.waits_for = {"0REDUCE_GRAD"};
  const FlightReport report = align_flight_records(records);
  ASSERT_EQ(report.mismatches.size(), 1u);
  EXPECT_EQ(report.mismatches[0].rank, 1) << "of the same pp, not ranks 2 and 3";
}

TEST(FlightReportTest, RanksInDifferentStepsAreNoted) {
  RunOfRanks run(2);
  run.records[1].pass = run.records[1].step = 4;
  run.at(0, "0B0", FlightState::kWaiting, {"0RECV_B0"}, 2);
  const FlightReport report = run.report();
  EXPECT_EQ(report.notes.front(),
            "ranks are in different steps: rank 1 in step 4, rank 0 in step 5");
  EXPECT_EQ(first(report).kind, MismatchKind::kNotSent);
  EXPECT_NE(first(report).text.find("it is between instructions, after step 4"), std::string::npos);
}

TEST(FlightReportTest, JsonHasTheFirstMismatchAndEveryRank) {
  RunOfRanks run(2);
  run.at(0, "0B0", FlightState::kWaiting, {"0RECV_B0"}, 6);
  run.at(1, "1F0", FlightState::kRunning, {}, 7);
  const nlohmann::json json = nlohmann::json::parse(to_json(run.report()));
  EXPECT_EQ(json["mismatch"]["kind"], "not_sent");
  EXPECT_EQ(json["mismatch"]["rank"], 1);
  EXPECT_EQ(json["mismatch"], json["mismatches"][0]);
  EXPECT_EQ(json["ranks"].size(), 2u);
  EXPECT_EQ(json["ranks"][0]["instruction"]["waits_for"], nlohmann::json({"0RECV_B0"}));
  EXPECT_EQ(nlohmann::json::parse(to_json(RunOfRanks(2).report()))["mismatch"], nullptr);
}

TEST(FlightReportTest, TheTextOfAFileCannotSteerATerminal) {
  RunOfRanks run(1);
  run.records[0].failure = FlightFailure{0, 1, "\033[2Jgone"};
  run.records[0].run = "\033]0;x";
  const std::string text = describe(run.report(), 100);
  EXPECT_EQ(text.find('\033'), std::string::npos) << text;
}

TEST(FlightReportTest, RecordsThatContradictEachOtherAreRefused) {
  RunOfRanks run(2);
  run.records[1].rank = 0;
  EXPECT_EQ(error_of([&] { run.report(); }).kind(), ErrorKind::kInput);
  RunOfRanks sizes(2);
  sizes.records[1].num_ranks = 3;
  EXPECT_EQ(error_of([&] { sizes.report(); }).kind(), ErrorKind::kInput);
}

TEST(FlightReportTest, ARecordMayClaimAnyNumberOfRanks) {
  RunOfRanks run(1);
  run.records[0].num_ranks = 2147483647;
  EXPECT_EQ(run.report().missing.size(), 1024u);
}

}  // namespace
}  // namespace sluice::test::flight_report_test
