// Several processes under several launchers must have the bits of one process, report one error,
// and leave nothing behind.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class ProcessesTest : public TrainCommandTest {
 protected:
  ProcessesTest() {
    write_config("path = \"" + kModel + "\"", "global_batch_size = 8", R"([parallelism]
data_parallel_shards = 4
[comm]
heartbeat_seconds = 2
)");
  }

  std::string train_line(const std::vector<std::string>& options) const {
    std::string line = "train " + quoted_for_shell(config());
    for (const std::string& option : options) line += " " + quoted_for_shell(option);
    return line;
  }
  static std::string program() { return quoted_for_shell(SLUICE_PROGRAM); }

  // "" if the launcher is not installed.
  std::string started_by(const std::string& launcher, int n,
                         const std::vector<std::string>& options) const {
    const std::string processes = std::to_string(n), line = train_line(options);
    if (launcher == "sluice launch") return program() + " launch -n " + processes + " -- " + line;
    if (launcher == "torchrun") {
      return std::string(SLUICE_TORCH_PYTHON) +
             " -m torch.distributed.run --no-python --nproc-per-node " + processes +
             " --master-port " + std::to_string(free_port()) + " " + program() + " " + line;
    }
    if (launcher == "mpirun") {
      return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe "
             "--bind-to none -n " +
             processes + " " + program() + " " + line;
    }
    const std::string port = std::to_string(free_port());
    std::string all;
    for (int rank = 0; rank < n; ++rank) {
      all += "RANK=" + std::to_string(rank) + " WORLD_SIZE=" + processes +
             " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " " + program() + " " + line + " & p" +
             std::to_string(rank) + "=$!; ";
    }
    for (int rank = 0; rank < n; ++rank) all += "wait $p" + std::to_string(rank) + " || code=$?; ";
    return "code=0; " + all + "exit $code";
  }

  static int lines_with(const std::string& part, const std::string& text) {
    int count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
    return count;
  }

  // Processes of this test that still run. Needs pgrep.
  std::string left() const {
    const ProgramResult all = run_shell("pgrep -a -x 'sluice|sluice-run' || test $? = 1");
    EXPECT_EQ(all.exit_code, 0) << all.err;
    std::istringstream lines(all.out);
    std::string found;
    for (std::string line; std::getline(lines, line);)
      if (line.find(config()) != std::string::npos) found += line + "\n";
    return found;
  }

  static int free_port() {
    const ProgramResult port = run_shell(
        "python3 -c \"import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); "
        "print(s.getsockname()[1])\"");
    return std::stoi(port.out);
  }
};

bool is_installed(const std::string& launcher) {
  if (launcher == "torchrun") {
    return std::string(SLUICE_TORCH_PYTHON) != "" &&
           run_shell(std::string(SLUICE_TORCH_PYTHON) + " -c 'import torch.distributed.run'")
                   .exit_code == 0;
  }
  return launcher != "mpirun" || run_shell("command -v mpirun").exit_code == 0;
}

TEST_F(ProcessesTest, HaveTheBitsOfOneProcessInEveryLayout) {
  ASSERT_EQ(train(layout(1, 1)).exit_code, 0);
  const std::string expected = numbers();
  using Layout = std::tuple<int, int, int>;  // pp, dp, processes
  for (const auto& [pp, dp, n] : {Layout{2, 1, 1},
                                  {2, 2, 1},
                                  {1, 4, 1},
                                  {2, 1, 2},
                                  {4, 1, 4},
                                  {2, 2, 4},
                                  {2, 2, 2},
                                  {1, 4, 4},
                                  {1, 4, 2},
                                  {1, 2, 2}}) {
    fs::remove_all(out());
    const ProgramResult result =
        n == 1 ? train(layout(pp, dp)) : run_shell(started_by("sluice launch", n, layout(pp, dp)));
    const std::string text =
        std::to_string(pp) + " x " + std::to_string(dp) + " in " + std::to_string(n);
    ASSERT_EQ(result.exit_code, 0) << text << result.err;
    EXPECT_EQ(result.err, "") << text;
    EXPECT_EQ(numbers(), expected) << text;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n') > 3, true) << result.out;
  }
}

class LaunchersTest : public ProcessesTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(LaunchersTest, HaveTheBitsOfOneProcess) {
  const std::string launcher = GetParam();
  if (!is_installed(launcher)) GTEST_SKIP() << launcher << " is not installed";
  ASSERT_EQ(train(layout(1, 1)).exit_code, 0);
  const std::string expected = numbers();
  fs::remove_all(out());
  const ProgramResult result = run_shell(started_by(launcher, 2, layout(2, 2)));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(numbers(), expected);
}
INSTANTIATE_TEST_SUITE_P(All, LaunchersTest, ::testing::Values("by hand", "torchrun", "mpirun"),
                         [](const auto& row) {
                           return row.index == 0 ? "by_hand" : std::string(row.param);
                         });

TEST_F(ProcessesTest, ARankThatIsLostIsNamedAndEndsAllOfThem) {
  struct Case {
    std::string fault;
    int exit_code;
  };
  for (const Case& c : {Case{"kill", 137}, {"stop", 5}, {"exit", 1}}) {
    for (const int rank : {0, 3}) {
      fs::remove_all(out());
      const std::string text = c.fault + " of rank " + std::to_string(rank);
      const auto start = std::chrono::steady_clock::now();
      const ProgramResult result =
          run_shell("SLUICE_FAULT=" + c.fault + ":rank=" + std::to_string(rank) + ",step=2 " +
                    started_by("sluice launch", 4, layout(2, 2)));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      EXPECT_EQ(result.exit_code, c.exit_code) << text << result.err;
      EXPECT_LT(took.count(), 60) << text << ": a wait ended by its deadline";
      EXPECT_NE(result.err.find("sluice: error: process " + std::to_string(rank) + " (rank " +
                                std::to_string(rank) + ")"),
                std::string::npos)
          << text << result.err;
      EXPECT_EQ(lines_with("sluice: error:", result.err), 1) << text << result.err;
      EXPECT_EQ(left(), "") << text;
    }
  }
}

TEST_F(ProcessesTest, ARankThatHangsIsNamedOnceWithWhoWaitsForItAndEndsTheRunInTime) {
  const std::string named = "rank 2 (stage 1) hangs: it has been in instruction ",
                    waits = " from rank 2";
  const auto hung_under = [&](const std::string& fault, const std::string& comm) {
    fs::remove_all(out());
    return run_shell("SLUICE_FAULT=delay:rank=2,step=3,action=F," + fault + " " +
                     started_by("sluice launch", 4, layout(2, 2)) + comm);
  };
  const ProgramResult back = hung_under("ms=5000", " --comm.heartbeat_seconds=1");
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(lines_with("sluice: warning: " + named, back.err), 1) << back.err;
  const std::size_t at = back.err.find(named);
  EXPECT_NE(back.err.substr(at, back.err.find('\n', at) - at).find(waits), std::string::npos)
      << back.err;
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult over =
      hung_under("ms=120000", " --comm.heartbeat_seconds=1 --comm.train_timeout_seconds=4");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(over.exit_code, 5) << over.err;
  EXPECT_LT(took.count(), 60);
  EXPECT_EQ(lines_with("sluice: error: " + named, over.err), 1) << over.err;
  EXPECT_EQ(lines_with("sluice: error:", over.err), 1) << over.err;
  EXPECT_EQ(left(), "");
}

TEST_F(ProcessesTest, ByHandTheOthersNameTheRankThatIsLost) {
  const ProgramResult result = run_shell("export SLUICE_FAULT=kill:rank=1,step=2; " +
                                         started_by("by hand", 2, layout(2, 1)));
  EXPECT_NE(result.err.find("sluice: error: process 1 (rank 1)"), std::string::npos) << result.err;
  EXPECT_EQ(lines_with("sluice: error:", result.err), 1) << result.err;
}

TEST_F(ProcessesTest, AnErrorOfOneIsToldOnceAndEndsAllWithItsCode) {
  for (const auto& [fault, exit_code] :
       {std::pair{"throw:rank=2,step=3", 1}, {"nan:rank=1,step=3,action=F", 6}}) {
    fs::remove_all(out());
    const ProgramResult result = run_shell(std::string("SLUICE_FAULT=") + fault + " " +
                                           started_by("sluice launch", 4, layout(2, 2)));
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(lines_with("sluice: error:", result.err), 1) << result.err;
    EXPECT_EQ(metrics().size(), 2u);
    expect_last_step_is_saved();
  }
}

TEST_F(ProcessesTest, OneThatWasStartedForAnotherRunIsNamed) {
  const std::string start =
      "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(free_port()) + " ";
  std::string other = start;
  other.replace(other.find("RANK=0"), 6, "RANK=1");
  const ProgramResult result =
      run_shell(other + program() + " " +
                train_line({layout(1, 2)[0], layout(1, 2)[1], "--optimizer.lr=0.5"}) + " & " +
                start + program() + " " + train_line(layout(1, 2)) + "; code=$?; wait; exit $code");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(
      result.err.find(
          "rank 1 was started for another run: its optimizer.lr is 0.5, but rank 0's is 0.001"),
      std::string::npos)
      << result.err;
  EXPECT_EQ(lines_with("sluice: error:", result.err), 1) << result.err;
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(ProcessesTest, ASignalToOneIsARequestToAll) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string line = "exec " + started_by("sluice launch", 4, layout(2, 2)) +
                             " --training.steps=1000000 >/dev/null 2>" + quoted_for_shell(err());
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  wait_for_metrics();
  EXPECT_EQ(run_shell("kill -TERM $(pgrep -P " + std::to_string(child) + " | tail -n 1)").exit_code,
            0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 75) << test::read_file(err());
  expect_last_step_is_saved();
}

TEST_F(ProcessesTest, ARunThatIsStartedAgainHasTheBitsOfOneThatWasNeverLost) {
  ASSERT_EQ(train(layout(1, 1)).exit_code, 0);
  const std::string expected = numbers();
  fs::remove_all(out());
  std::string line = started_by("sluice launch", 4, layout(2, 2)) + " --checkpoint.interval=1";
  line.replace(line.find("launch -n 4"), 11, "launch -n 4 --max-restarts 2");
  const ProgramResult result = run_shell("SLUICE_FAULT=kill:rank=2,step=3 " + line);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(numbers(), expected);
}

// A run is killed or stopped in one layout and resumed in the next.
class ElasticTest : public ProcessesTest {
 protected:
  struct Part {
    int pp, dp, processes;
    std::string option;
  };
  static std::vector<Part> parts() {
    return {{4, 1, 4, ""}, {2, 2, 2, "zero1"}, {1, 4, 4, "zero3"}};
  }

  std::string line_of(const Part& part) const {
    std::vector<std::string> options = layout(part.pp, part.dp);
    options.insert(options.end(),
                   {"--training.steps=" + std::to_string(kSteps), "--checkpoint.interval=1"});
    if (!part.option.empty()) options.push_back("--parallelism." + part.option + "=true");
    return started_by("sluice launch", part.processes, options);
  }

  std::string all_numbers() const {
    std::string text;
    for (const nlohmann::json& line : metrics()) text += line.at("loss").dump() + "\n";
    char name[32];
    std::snprintf(name, sizeof name, "step-%08d", kSteps);
    return text + hashes_of_step(name);
  }
  std::string finish() const {
    const ProgramResult result =
        train({layout(1, 1)[0], layout(1, 1)[1], "--training.steps=" + std::to_string(kSteps)});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return all_numbers();
  }

  // Starts a part of the run and sends the signal `milliseconds` after its first step. Returns the
  // launcher's exit code. Steps are slowed down so that the signal hits a running step.
  int ended_amid(const Part& part, int signal, bool to_launcher, int milliseconds = 0) const {
    const std::size_t before = metrics().size();
    const pid_t child = fork();
    if (child == 0) {
      const std::string line =
          "exec env SLUICE_FAULT=delay:rank=0,instruction=0,ms=60,times=100000 " + line_of(part) +
          " >/dev/null 2>" + quoted_for_shell(err());
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    wait_until([&] { return metrics().size() > before + 1; }, std::chrono::milliseconds(20));
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    const std::string of_it = "$(pgrep -P " + std::to_string(child) + " | tail -n 1)";
    const std::string target = to_launcher ? std::to_string(child) : of_it;
    EXPECT_EQ(run_shell("kill -" + std::to_string(signal) + " " + target).exit_code, 0);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    wait_until([&] { return left().empty(); }, std::chrono::milliseconds(50));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  static constexpr int kSteps = 40;
};

TEST_F(ElasticTest, RunsThatWereKilledAndStoppedHaveTheBitsOfOneThatWasNot) {
  const std::string expected = finish();
  fs::remove_all(out());
  EXPECT_EQ(ended_amid(parts()[0], SIGKILL, /*to_launcher=*/false), 137) << test::read_file(err());
  EXPECT_EQ(ended_amid(parts()[1], SIGTERM, /*to_launcher=*/true), 75) << test::read_file(err());
  EXPECT_EQ(ended_amid(parts()[2], SIGKILL, /*to_launcher=*/true), 137) << test::read_file(err());
  EXPECT_LT(metrics().size(), static_cast<std::size_t>(kSteps)) << "there is something left to do";
  EXPECT_EQ(finish(), expected);
}

using ElasticSweepTest = ElasticTest;

TEST_F(ElasticSweepTest, RunsThatWereKilledAndStoppedAtAnyMomentHaveTheSameBits) {
  const std::string expected = finish();
  std::mt19937 random(11);
  for (int round = 0; round < 12; ++round) {
    fs::remove_all(out());
    for (const Part& part : parts()) {
      const bool kills = random() % 2 == 0, to_launcher = random() % 2 == 0;
      const int code = ended_amid(part, kills ? SIGKILL : SIGTERM, to_launcher,
                                  static_cast<int>(random() % 400));
      EXPECT_EQ(code, kills ? 137 : 75) << round << test::read_file(err());
    }
    ASSERT_EQ(finish(), expected) << round;
  }
}

class ProcessFaultsTest : public ProcessesTest {
 protected:
  // The instructions of every rank in program order, read from flight records. A rank leaves no
  // record before its first instruction, so the fault is in step 2.
  std::vector<std::vector<std::string>> instructions() {
    EXPECT_EQ(run_shell("SLUICE_FAULT=throw:rank=0,step=2 " +
                        started_by("sluice launch", 4, layout(2, 2)))
                  .exit_code,
              1);
    std::vector<std::vector<std::string>> of_rank;
    for (int rank = 0; rank < 4; ++rank) {
      const nlohmann::json record = nlohmann::json::parse(
          test::read_file(out() + "/flight/rank_" + std::to_string(rank) + ".json"));
      of_rank.push_back(record.at("program").at("instructions").get<std::vector<std::string>>());
      EXPECT_GT(of_rank.back().size(), 4u);
    }
    return of_rank;
  }

  void meet(const std::string& kind, int rank, int instruction, const std::string& action) {
    fs::remove_all(out());
    fs::remove_all(private_files());
    fs::create_directory(private_files());
    const std::string number = std::to_string(rank);
    const std::string fault = kind + ":rank=" + number +
                              ",step=2,instruction=" + std::to_string(instruction) +
                              (kind == "delay" ? ",ms=200" : "");
    const std::string text = fault + " '" + action + "'";
    const auto start = std::chrono::steady_clock::now();
    const ProgramResult result =
        run_shell("XDG_RUNTIME_DIR=" + quoted_for_shell(private_files()) +
                  " TMPDIR=" + quoted_for_shell(private_files()) + " SLUICE_FAULT=" + fault +
                  " timeout 60 " + started_by("sluice launch", 4, layout(2, 2)));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 50) << text << ": a wait ended by its deadline";
    // Only processes could hold ports, so this checks ports, too.
    EXPECT_EQ(left(), "") << text;
    EXPECT_EQ(test::list_directory(private_files()), std::set<std::string>{}) << text;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.str()))
      EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();

    const auto [exit_code, culprit] = outcome(kind, number, instruction, action);
    EXPECT_EQ(result.exit_code, exit_code) << text << result.err;
    EXPECT_EQ(lines_with("sluice: error:", result.err), exit_code == 0 ? 0 : 1)
        << text << result.err;
    if (exit_code == 0) {
      EXPECT_EQ(numbers(), expected_) << text;
    } else {
      const std::size_t at = result.err.find("sluice: error:");
      const std::string line = result.err.substr(at, result.err.find('\n', at) - at);
      EXPECT_NE(line.find(culprit), std::string::npos) << text << line;
    }
  }

  void sweep(const std::string& kind) {
    const std::vector<std::vector<std::string>> all = instructions();
    begin_clean();
    for (int rank = 0; rank < 4; ++rank) {
      const std::vector<std::string>& row = all[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < row.size(); ++i) meet(kind, rank, static_cast<int>(i), row[i]);
    }
  }

  void begin_clean() {
    fs::remove_all(out());
    ASSERT_EQ(train(layout(1, 1)).exit_code, 0);
    expected_ = numbers();
  }

 private:
  std::string private_files() const { return folder_ / "private"; }

  // Only an instruction that computes and sends a value can make it NaN, and only a message can be
  // corrupt.
  static bool can_suffer(const std::string& kind, const std::string& action) {
    if (kind == "corrupt") return action.find("SEND_") != std::string::npos;
    if (kind != "nan") return true;
    return action.size() == 3 && (action[1] == 'F' || (action[1] == 'B' && action[0] != '0'));
  }

  static std::pair<int, std::string> outcome(const std::string& kind, const std::string& rank,
                                             int instruction, const std::string& action) {
    const std::string process = "process " + rank + " (rank " + rank + ")";
    if (kind == "delay" || !can_suffer(kind, action)) return {0, ""};
    if (kind == "kill") return {137, process};
    if (kind == "stop") return {5, process};
    if (kind == "exit") return {1, process};
    if (kind == "corrupt") return {1, ": expected float32[2, 16, 64], got float32[1, 2, 16, 64]; "};
    // A NaN gradient is found on the stage that receives it.
    if (kind == "nan") return {6, action[1] == 'F' ? "(rank " + rank + ")" : "step 2, stage 0 "};
    return {1, "injected fault; rank " + rank + ", instruction " + std::to_string(instruction)};
  }

  std::string expected_;
};

TEST_F(ProcessFaultsTest, EveryKindEndsInItsExitCodeAndNamesItsCulprit) {
  const std::vector<std::vector<std::string>> all = instructions();
  begin_clean();
  const auto meet_at = [&](const std::string& kind, int rank, const std::string& part) {
    const std::vector<std::string>& row = all[static_cast<std::size_t>(rank)];
    const auto found = std::find_if(row.begin(), row.end(), [&](const std::string& action) {
      return action.find(part) != std::string::npos;
    });
    ASSERT_NE(found, row.end()) << part;
    meet(kind, rank, static_cast<int>(found - row.begin()), *found);
  };
  meet_at("kill", 1, "0SEND_F");
  meet_at("stop", 2, "1F1");
  meet_at("exit", 3, "1RECV_F");
  meet_at("throw", 0, "0B1");
  meet_at("delay", 3, "1F0");
  meet_at("nan", 0, "0F1");
  meet_at("corrupt", 2, "1SEND_B");
}

using ProcessFaultSweepTest = ProcessFaultsTest;

TEST_F(ProcessFaultSweepTest, EveryKillAtEveryInstructionOfEveryRank) { sweep("kill"); }
TEST_F(ProcessFaultSweepTest, EveryStopAtEveryInstructionOfEveryRank) { sweep("stop"); }
TEST_F(ProcessFaultSweepTest, EveryExitAtEveryInstructionOfEveryRank) { sweep("exit"); }
TEST_F(ProcessFaultSweepTest, EveryThrowAtEveryInstructionOfEveryRank) { sweep("throw"); }
TEST_F(ProcessFaultSweepTest, EveryDelayAtEveryInstructionOfEveryRank) { sweep("delay"); }
TEST_F(ProcessFaultSweepTest, EveryNanAtEveryInstructionOfEveryRank) { sweep("nan"); }
TEST_F(ProcessFaultSweepTest, EveryCorruptionAtEveryInstructionOfEveryRank) { sweep("corrupt"); }

using ProcessesSweepTest = ProcessesTest;

TEST_F(ProcessesSweepTest, TwoHundredStartsAndStopsHangNever) {
  const std::string line =
      "timeout 60 " + started_by("sluice launch", 4, layout(2, 2)) + " --training.steps=1";
  for (int i = 0; i < 200; ++i) {
    fs::remove_all(out());
    ASSERT_EQ(run_shell(line).exit_code, 0) << i;
  }
}

TEST_F(ProcessesSweepTest, TwoHundredRandomKillsEndInTheBitsOfTheCleanRun) {
  const std::vector<std::string> more = {"--training.steps=120", "--checkpoint.interval=3"};
  std::vector<std::string> clean = layout(1, 1), killed = layout(2, 2);
  clean.insert(clean.end(), more.begin(), more.end());
  killed.insert(killed.end(), more.begin(), more.end());
  const auto numbers_of_last = [&] {
    fs::rename(out() + "/checkpoint/step-00000120", out() + "/checkpoint/step-00000003");
    return numbers();
  };
  ASSERT_EQ(train(clean).exit_code, 0);
  const std::string expected = numbers_of_last();
  for (int kills = 0, round = 0; kills < 200; ++round) {
    fs::remove_all(out());
    std::string line = started_by("sluice launch", 4, killed);
    line.replace(line.find("launch -n 4"), 11, "launch -n 4 --max-restarts 1000");
    // Kills a random rank every 1.1 to 2 seconds.
    const ProgramResult result = run_shell(
        line +
        " & launcher=$!; while kill -0 $launcher 2>/dev/null; do sleep 0.$(shuf -i 100-999 -n 1); "
        "sleep 1; kill -KILL $(pgrep -P $launcher | shuf -n 1) 2>/dev/null && echo killed; "
        "done; wait $launcher");
    ASSERT_EQ(result.exit_code, 0) << round << result.err;
    kills += lines_with("killed", result.out);
    ASSERT_EQ(numbers_of_last(), expected) << round;
  }
}

// ---- ranks that share layers ----

// A model with four key-value heads, in four slices.
class TensorParallelProcessesTest : public ProcessesTest {
 protected:
  TensorParallelProcessesTest() {
    auto model = nlohmann::json::parse(test::read_file(kModel + "/config.json"));
    model["num_key_value_heads"] = 4;
    test::write_file(folder_ / "model.json", model.dump());
  }

  ProgramResult run_layout(int processes, std::vector<std::string> options,
                           const std::string& fault = "") const {
    options.insert(options.begin(), {"--model.path=", "--model.config=" + (folder_ / "model.json"),
                                     "--parallelism.tensor_parallel_slices=4",
                                     "--parallelism.data_parallel_shards=2"});
    const std::string variable =
        fault.empty() ? "" : "SLUICE_FAULT=" + quoted_for_shell(fault) + " ";
    return run_shell(variable + (processes == 1 ? program() + " " + train_line(options)
                                                : started_by("sluice launch", processes, options)));
  }

  struct Layout {
    int tp, pp, dp, processes;
    std::vector<std::string> more;
    std::string name() const {
      return "tp " + std::to_string(tp) + ", pp " + std::to_string(pp) + ", dp " +
             std::to_string(dp) + " in " + std::to_string(processes) + " processes" +
             std::accumulate(more.begin(), more.end(), std::string(),
                             [](const std::string& all, const std::string& option) {
                               return all + ", " + option.substr(option.find('.') + 1);
                             });
    }
  };
  static std::vector<Layout> layouts() {
    const std::string whole = "--parallelism.sequence_parallel=false";
    const std::string checkpointed = "--training.activation_checkpoint=full";
    const auto schedule = [](const std::string& name) {
      return "--parallelism.pipeline_parallel_schedule=" + name;
    };
    std::vector<Layout> all;
    for (const auto& [tp, pp, dp, n] : {std::tuple(2, 1, 1, 2),
                                        {4, 1, 1, 4},
                                        {4, 1, 1, 2},
                                        {2, 2, 1, 4},
                                        {2, 2, 1, 2},
                                        {2, 1, 2, 4},
                                        {2, 1, 2, 2},
                                        {4, 2, 1, 4},
                                        {2, 2, 2, 8},
                                        {4, 1, 2, 8}}) {
      std::vector<std::vector<std::string>> ways = {{schedule("1F1B")},
                                                    {schedule("GPipe"), whole, checkpointed},
                                                    {schedule("ZBVZeroBubble")},
                                                    {schedule("ZBVZeroBubble"), checkpointed}};
      if (dp > 1) {
        ways[2].emplace_back("--parallelism.zero1=true");
        ways[3].emplace_back("--parallelism.zero3=true");
      } else {
        ways[3].push_back(whole);
      }
      for (const auto& way : ways) all.push_back({tp, pp, dp, n, way});
    }
    return all;
  }

  // Tests one in `every` layouts.
  void expect_bits_of_one_process(std::size_t every) const {
    ASSERT_EQ(run_layout(1, layout(1, 1, 1)).exit_code, 0);
    const std::string expected = numbers();
    const std::vector<Layout> all = layouts();
    ASSERT_EQ(all.size(), 40U);
    for (std::size_t i = 0; i < all.size(); i += every) {
      fs::remove_all(out());
      std::vector<std::string> options = layout(all[i].pp, all[i].dp, all[i].tp);
      // Eight processes on a busy machine may wait seconds for a core.
      options.emplace_back("--comm.heartbeat_seconds=60");
      options.insert(options.end(), all[i].more.begin(), all[i].more.end());
      const ProgramResult result = run_layout(all[i].processes, options);
      ASSERT_EQ(result.exit_code, 0) << all[i].name() << result.err;
      EXPECT_EQ(result.err, "") << all[i].name();
      EXPECT_EQ(numbers(), expected) << all[i].name();
    }
  }
};

TEST_F(TensorParallelProcessesTest, HaveTheBitsOfOneProcessInSomeLayouts) {
  expect_bits_of_one_process(7);
}
class SlowTensorParallelProcessesTest : public TensorParallelProcessesTest {};
TEST_F(SlowTensorParallelProcessesTest, HaveTheBitsOfOneProcessInFortyLayouts) {
  expect_bits_of_one_process(1);
}

TEST_F(TensorParallelProcessesTest, ACheckpointOfAnyDegreeGoesOnAtAnyOther) {
  ASSERT_EQ(run_layout(1, layout(1, 1, 1)).exit_code, 0);
  const std::string expected = numbers();
  const auto files = [&] {
    std::map<std::string, std::string> content;
    for (const auto& entry :
         fs::recursive_directory_iterator(out() + "/checkpoint/step-00000003")) {
      const std::string path = entry.path();
      if (path.ends_with(".safetensors")) content[path] = test::read_file(path);
    }
    return content;
  };
  const auto of_one = files();
  EXPECT_GT(of_one.size(), 1U);
  struct Part {
    int tp, pp, dp, processes;
  };
  const std::vector<std::vector<Part>> ways = {{{4, 1, 1, 4}, {1, 1, 2, 2}, {2, 2, 1, 4}},
                                               {{1, 2, 1, 1}, {4, 1, 1, 2}, {2, 1, 2, 4}},
                                               {{2, 1, 1, 2}, {4, 2, 1, 4}, {1, 1, 1, 1}}};
  for (std::size_t way = 0; way < ways.size(); ++way) {
    fs::remove_all(out());
    for (int step = 1; step <= 3; ++step) {
      const Part& part = ways[way][static_cast<std::size_t>(step - 1)];
      std::vector<std::string> options = layout(part.pp, part.dp, part.tp);
      options.push_back("--training.steps=" + std::to_string(step));
      const ProgramResult result = run_layout(part.processes, options);
      ASSERT_EQ(result.exit_code, 0) << result.err;
    }
    EXPECT_EQ(numbers(), expected) << way;
    if (ways[way].back().processes == 1) {
      EXPECT_TRUE(files() == of_one) << "other bytes of files";
    }
  }
}

TEST_F(TensorParallelProcessesTest, AFaultWithinALayerEndsAllOfThemWithOneCause) {
  struct Case {
    std::string kind;
    int exit_code;
    std::string error;  // prefix
  };
  const std::string lost = "sluice: error: process 1 (rank 1)";
  const std::vector<Case> cases = {
      {"kill", 137, lost},
      {"stop", 5, lost},
      {"throw", 1, "sluice: error: injected fault; rank 1, instruction "}};
  struct Place {
    std::string selectors;
    int pp, dp;
  };
  const std::vector<Place> places = {
      {"action=F,call=3", 2, 1}, {"action=I,call=2", 2, 1}, {"action=REDUCE_GRAD", 1, 2}};
  for (const Place& place : places) {
    for (const Case& c : cases) {
      fs::remove_all(out());
      const std::string fault = c.kind + ":rank=1,step=2," + place.selectors;
      std::vector<std::string> options = layout(place.pp, place.dp, 2);
      options.emplace_back("--parallelism.pipeline_parallel_schedule=ZBVZeroBubble");
      const auto start = std::chrono::steady_clock::now();
      const ProgramResult result = run_layout(4, options, fault);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      EXPECT_EQ(result.exit_code, c.exit_code) << fault << result.err;
      EXPECT_LT(took.count(), 60) << fault << ": a wait ended by its deadline";
      EXPECT_NE(result.err.find(c.error), std::string::npos) << fault << result.err;
      EXPECT_EQ(lines_with("sluice: error:", result.err), 1) << fault << result.err;
      EXPECT_EQ(left(), "") << fault;
      EXPECT_EQ(metrics().size(), 1U) << fault;
      // If a process is stopped, its partner still waits in the same layer. After other faults the
      // partner may end between two calls.
      if (place.dp > 1 || c.kind != "stop") continue;
      const nlohmann::json last =
          nlohmann::json::parse(test::read_file(out() + "/flight/rank_0.json"))["actions"].back();
      EXPECT_NE(last["call"].get<std::string>().find(" over tp: "), std::string::npos)
          << fault << last;
      EXPECT_EQ(last["missing"], nlohmann::json({1})) << fault << last;
      const ProgramResult flight = run_sluice({"debug", "flight", out() + "/flight", "--json"});
      const nlohmann::json mismatch = nlohmann::json::parse(flight.out)["mismatch"];
      EXPECT_EQ(mismatch["rank"], 1) << fault << flight.out;
      EXPECT_NE(mismatch["text"].get<std::string>().find(" over tp: "), std::string::npos)
          << fault << flight.out;
    }
  }
}

TEST_F(TensorParallelProcessesTest, ARankThatHangsInALayerIsNamedWithTheModuleThatWaitsForIt) {
  std::vector<std::string> options = layout(2, 1, 2);
  options.insert(options.end(), {"--comm.heartbeat_seconds=1", "--comm.train_timeout_seconds=4"});
  const ProgramResult result =
      run_layout(4, options, "delay:rank=1,step=3,action=F,call=3,ms=120000");
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_EQ(lines_with("sluice: error:", result.err), 1) << result.err;
  EXPECT_EQ(lines_with("sluice: error: rank 1 (stage 0) hangs: ", result.err), 1) << result.err;
  const std::size_t at = result.err.find("sluice: warning: rank 1 (stage 0) hangs: ");
  ASSERT_NE(at, std::string::npos) << result.err;
  EXPECT_NE(result.err.substr(at, result.err.find('\n', at) - at)
                .find("rank 0 waits in 0F0 model.layers.0.self_attn.o_proj ("),
            std::string::npos)
      << result.err;
  EXPECT_EQ(left(), "");
}

}  // namespace
}  // namespace sluice::testing
