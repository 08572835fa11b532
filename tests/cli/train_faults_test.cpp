// Every kind of SLUICE_FAULT leaves one error, an exit code, and flight records.
#include <csignal>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class TrainFaultsTest : public TrainCommandTest {
 protected:
  ProgramResult train_under(const std::string& fault, const std::string& more = "",
                            const std::string& command = "train") const {
    fs::remove_all(out());
    return run_shell("SLUICE_FAULT=" + quoted_for_shell(fault) + " " + more + " " +
                     quoted_for_shell(SLUICE_PROGRAM) + " " + command + " " +
                     quoted_for_shell(config()));
  }
  // Starts the program without `sh`, which would hide the signal that kills or stops it.
  pid_t start_under(const std::string& fault, const std::string& options = "") const {
    const pid_t child = fork();
    if (child == 0) {
      const std::string line = "exec env SLUICE_FAULT=" + quoted_for_shell(fault) + " " +
                               quoted_for_shell(SLUICE_PROGRAM) + " train " +
                               quoted_for_shell(config()) + " " + options + " >/dev/null 2>" +
                               quoted_for_shell(err());
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    return child;
  }
  std::string flight() const { return out() + "/flight"; }
  nlohmann::json record(int rank) const {
    return nlohmann::json::parse(
        test::read_file(flight() + "/rank_" + std::to_string(rank) + ".json"));
  }
  nlohmann::json compared() const {
    const ProgramResult result = run_sluice({"debug", "flight", flight(), "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }
  static void expect_has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
};

TEST_F(TrainFaultsTest, AThrowStopsTheRunNamedWithItsInstructionAndLeavesRecords) {
  const ProgramResult result = train_under("throw:rank=1,step=2,instruction=1");
  EXPECT_EQ(result.exit_code, 1);
  expect_has(result.err, "fault: will inject throw at rank 1, step 2, instruction 1\n");
  expect_has(result.err, "sluice: error: injected fault; rank 1, instruction 1 ");
  EXPECT_EQ(record(1)["failure"]["rank"], 1);
  EXPECT_EQ(record(1)["reason"], "failure");
  EXPECT_EQ(record(1)["step"], 2);
  EXPECT_EQ(record(1)["actions"].back()["state"], "failed");
  EXPECT_EQ(record(0)["run"], record(1)["run"]);
  EXPECT_EQ(record(0)["program"]["fingerprint"], record(1)["program"]["fingerprint"]);
  const nlohmann::json report = compared();
  EXPECT_EQ(report["mismatch"]["kind"], "failed");
  EXPECT_EQ(report["mismatch"]["rank"], 1);
  EXPECT_EQ(report["missing"], nlohmann::json::array());
  expect_has(run_sluice({"debug", "flight", out()}).out,
             "first mismatch (failed): rank 1 failed: injected fault; rank 1, instruction 1 ");
}

TEST_F(TrainFaultsTest, ACorruptMessageIsFoundByItsReceiver) {
  const ProgramResult result = train_under("corrupt:rank=0,step=2,action=SEND_F");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  expect_has(result.err,
             ": expected float32[2, 16, 64], got float32[1, 2, 16, 64]; rank 1, instruction ");
  const ProgramResult backward = train_under("corrupt:rank=1,action=SEND_B");
  EXPECT_EQ(backward.exit_code, 1) << backward.err;
  expect_has(backward.err,
             ": expected float32[2, 16, 64], got float32[1, 2, 16, 64]; rank 0, instruction ");
}

TEST_F(TrainFaultsTest, ANanIsFoundWhereItCameFrom) {
  const ProgramResult forward = train_under("nan:step=2,stage=0,microbatch=1,action=F");
  EXPECT_EQ(forward.exit_code, 6) << forward.err;
  expect_has(forward.err, "step 2, stage 0 (rank 0), microbatch 1; ");
  const ProgramResult backward = train_under("nan:rank=1,step=2,action=1B0");
  EXPECT_EQ(backward.exit_code, 6) << backward.err;
  expect_has(backward.err, "is not finite; step 2, stage 0 (rank 0), microbatch 0; ");
}

TEST_F(TrainFaultsTest, ADelayChangesNothingButTheTime) {
  ASSERT_EQ(train_anew().exit_code, 0);
  const std::string loss = metrics().back()["loss"].dump();
  const ProgramResult delayed = train_under("delay:rank=1,step=2,ms=3000");
  EXPECT_EQ(delayed.exit_code, 0) << delayed.err;
  EXPECT_EQ(metrics().back()["loss"].dump(), loss);
  EXPECT_GE(metrics().at(1)["step_seconds"].get<double>(), 3);
  EXPECT_LT(metrics().at(2)["step_seconds"].get<double>(), 3) << "once";
}

TEST_F(TrainFaultsTest, AnExitIsOneOfTheProcess) {
  const ProgramResult result = train_under("exit:rank=1,step=2");
  EXPECT_EQ(result.exit_code, 1);
  expect_has(result.err, "fault: exit at rank 1, step 2 fires now: rank 1, instruction 0 ");
  EXPECT_EQ(metrics().size(), 1u);
}

TEST_F(TrainFaultsTest, AKillIsOneOfTheProcess) {
  const pid_t child = start_under("kill:rank=0,step=2,action=REDUCE_NORM");
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(metrics().size(), 1u);
}

TEST_F(TrainFaultsTest, AStopLastsUntilTheProcessIsContinued) {
  const pid_t child = start_under("stop:rank=1,step=2");
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(WSTOPSIG(status), SIGSTOP);
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(metrics().size(), 3u);
}

TEST_F(TrainFaultsTest, AfterARestartAFaultIsNoneUnlessItIsAlways) {
  EXPECT_EQ(train_under("throw:step=2", "TORCHELASTIC_RESTART_COUNT=1").exit_code, 0);
  EXPECT_EQ(train_under("throw:step=2", "TORCHELASTIC_RESTART_COUNT=0").exit_code, 1);
  EXPECT_EQ(train_under("throw:step=2,always", "TORCHELASTIC_RESTART_COUNT=1").exit_code, 1);
}

TEST_F(TrainFaultsTest, AFaultThatMeetsNothingIsSaid) {
  const ProgramResult result = train_under("throw:rank=1,step=2,action=7F7");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_has(result.err,
             "fault: throw at rank 1, step 2, action 7F7 never fired: rank 1 ran no matching "
             "instruction\n");
}

TEST_F(TrainFaultsTest, WhatIsMalformedIsRefusedBeforeARunBegins) {
  const ProgramResult kind = train_under("trow:step=2");
  EXPECT_EQ(kind.exit_code, 2);
  EXPECT_EQ(kind.err, "sluice: error: unknown fault 'trow'; SLUICE_FAULT; did you mean 'throw'?\n");
  EXPECT_FALSE(fs::exists(out()));
  const ProgramResult rank = train_under("throw:rank=2");
  EXPECT_EQ(rank.exit_code, 2);
  expect_has(rank.err, "sluice: error: there is no rank 2: the run has 2 ranks; SLUICE_FAULT; ");
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(TrainFaultsTest, AnEvaluationActsOnThemToo) {
  const ProgramResult result = train_under("throw:rank=1,step=2,action=1F0", "", "eval");
  EXPECT_EQ(result.exit_code, 1) << result.out;
  expect_has(result.err, "sluice: error: injected fault; rank 1, instruction ");
}

TEST_F(TrainFaultsTest, ASignalLeavesRecordsOfAHangThatNameTheRankThatHangs) {
  const pid_t child = start_under("delay:rank=1,step=2,action=1F0,ms=60000", "--training.steps=5");
  wait_for_metrics();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::string last = flight() + "/rank_1.json";
  kill(child, SIGUSR2);
  wait_until([&] { return fs::exists(last); }, std::chrono::milliseconds(20));
  const nlohmann::json report = compared();
  EXPECT_EQ(report["mismatch"]["kind"], "not_sent") << report.dump();
  EXPECT_EQ(report["mismatch"]["rank"], 1);
  expect_has(report["mismatch"]["text"], "'1F0' of step 2, running for ");
  EXPECT_EQ(record(0)["reason"], "signal");
  EXPECT_EQ(record(0)["failure"], nullptr);
  EXPECT_EQ(record(0)["actions"].back()["state"], "waiting");
  EXPECT_EQ(record(0)["actions"].back()["waits_for"], nlohmann::json({"0RECV_B0"}));
  fs::remove_all(flight());
  kill(child, SIGUSR2);
  wait_until([&] { return fs::exists(last); }, std::chrono::milliseconds(20));
  EXPECT_TRUE(fs::exists(last));
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "it goes on";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(TrainFaultsTest, ARankThatHangsIsNamedOnceAndTheRunWaitsOn) {
  ASSERT_EQ(train_anew().exit_code, 0);
  const std::string loss = metrics().back()["loss"].dump();
  const ProgramResult hung =
      train_under("delay:rank=1,step=3,action=1F0,ms=4000", "SLUICE_COMM_HEARTBEAT_SECONDS=1");
  EXPECT_EQ(hung.exit_code, 0) << hung.err;
  EXPECT_EQ(metrics().back()["loss"].dump(), loss);
  expect_has(hung.err, "sluice: warning: rank 1 (stage 1) hangs: it has been in instruction ");
  expect_has(hung.err, " '1F0' of step 3 for ");
  expect_has(hung.err, "; rank 0 waits for 0RECV_B0 of step 3 from rank 1; the run waits on, ");
  EXPECT_EQ(hung.err.find("hangs: "), hung.err.rfind("hangs: ")) << hung.err;
}

TEST_F(TrainFaultsTest, ARankThatHangsForTooLongEndsTheRunThatNamesIt) {
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult hung =
      train_under("delay:rank=1,step=3,action=1F0,ms=120000",
                  "SLUICE_COMM_HEARTBEAT_SECONDS=1 SLUICE_COMM_TRAIN_TIMEOUT_SECONDS=3");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(hung.exit_code, 5) << hung.err;
  EXPECT_LT(took.count(), 60);
  expect_has(hung.err, "sluice: error: rank 1 (stage 1) hangs: it has been in instruction ");
  expect_has(hung.err, " '1F0' of step 3 for ");
  EXPECT_EQ(metrics().size(), 2u);
  const nlohmann::json report = compared();
  EXPECT_EQ(report["mismatch"]["rank"], 1) << report.dump();
  EXPECT_EQ(report["missing"], nlohmann::json::array());
}

TEST_F(TrainFaultsTest, DebugFlightRefusesWhatIsNoRecord) {
  const std::string folder = folder_ / "flight";
  const auto refused = [&](const std::string& says) {
    const ProgramResult result = run_sluice({"debug", "flight", folder});
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_EQ(result.out, "");
    expect_has(result.err, says);
  };
  refused("cannot read the folder: No such file or directory");
  fs::create_directory(folder);
  refused("no flight record (rank_0.json, ..)");
  test::write_file(folder + "/rank_0.json", "{\"format\": 3}");
  refused("'format' is not a text; ");
  test::write_file(folder + "/rank_0.json", std::string(100000, '['));
  refused("JSON is nested deeper than 64 levels");
  ASSERT_EQ(train_under("throw:rank=1,step=2").exit_code, 1);
  fs::copy_file(flight() + "/rank_0.json", folder + "/rank_1.json");
  fs::remove(folder + "/rank_0.json");
  refused("the file's name does not match its record of rank 0");
}

TEST_F(TrainFaultsTest, AFileThatIsMissingIsNamedAsTheRankThatOthersWaitFor) {
  ASSERT_EQ(train_under("throw:rank=1,step=2,action=1F0").exit_code, 1);
  fs::remove(flight() + "/rank_1.json");
  const nlohmann::json report = compared();
  EXPECT_EQ(report["missing"], nlohmann::json({1}));
  EXPECT_EQ(report["mismatch"]["kind"], "failed") << "the others have heard of the failure";
  EXPECT_EQ(report["mismatches"][1]["kind"], "missing");
  EXPECT_EQ(report["mismatches"][1]["rank"], 1);
}

}  // namespace
}  // namespace sluice::testing
