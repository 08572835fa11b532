// `sluice train` in several processes, whoever starts them: the bits of one process, one error for
// all, nothing left behind.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <tuple>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

// A run of 4 microbatches a step, whatever the layout.
class ProcessesTest : public TrainCommandTest {
 protected:
  ProcessesTest() {
    test::write_file(config(), "[model]\npath = \"" + kModel + R"("
[data]
files = ["text.txt"]
[training]
steps = 3
global_batch_size = 8
microbatch_size = 2
seq_len = 16
[optimizer]
lr = 1e-3
[parallelism]
data_parallel_shards = 4
[comm]
heartbeat_seconds = 2
[checkpoint]
folder = "out/checkpoint"
[metrics]
folder = "out"
)");
  }

  std::vector<std::string> layout(int pp, int dp) const {
    return {"--parallelism.pipeline_parallel_degree=" + std::to_string(pp),
            "--parallelism.data_parallel_degree=" + std::to_string(dp)};
  }
  std::string train_line(const std::vector<std::string>& options) const {
    std::string line = "train " + quoted_for_shell(config());
    for (const std::string& option : options) line += " " + quoted_for_shell(option);
    return line;
  }
  static std::string program() { return quoted_for_shell(SLUICE_PROGRAM); }

  // What each launcher's line is, for n processes; "" where it is not installed.
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
    // By hand.
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

  // Processes of this test that still run.
  std::string left() const {
    return run_shell("pgrep -a -x 'sluice|sluice-run' | grep -F " + quoted_for_shell(config())).out;
  }

  static int free_port() {
    const ProgramResult port = run_shell(
        "python3 -c \"import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); "
        "print(s.getsockname()[1])\"");
    return std::stoi(port.out);
  }

  // Losses and norms, and the hashes of the last weights and of their optimizer state.
  std::string numbers() const {
    std::string text;
    for (const nlohmann::json& line : metrics()) {
      text += line.at("loss").dump() + " " + line.at("grad_norm").dump() + " " +
              line.at("tokens").dump() + "\n";
    }
    return text + hashes_of_step("step-00000003");
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

TEST_F(ProcessesTest, HaveTheSameBitsUnderEveryLauncher) {
  ASSERT_EQ(train(layout(1, 1)).exit_code, 0);
  const std::string expected = numbers();
  for (const char* launcher : {"by hand", "torchrun", "mpirun"}) {
    if (!is_installed(launcher)) {
      std::cerr << launcher << " is not installed: skipped\n";
      continue;
    }
    fs::remove_all(out());
    const ProgramResult result = run_shell(started_by(launcher, 2, layout(2, 2)));
    ASSERT_EQ(result.exit_code, 0) << launcher << ": " << result.err;
    EXPECT_EQ(numbers(), expected) << launcher;
  }
}

TEST_F(ProcessesTest, ARankThatIsLostIsNamedAndEndsAllOfThem) {
  struct Case {
    std::string fault;
    int exit_code;
    double seconds;  // at most
  };
  for (const Case& c : {Case{"kill", 137, 5}, {"stop", 5, 2 + 5}, {"exit", 1, 5}}) {
    for (const int rank : {0, 3}) {
      fs::remove_all(out());
      const std::string text = c.fault + " of rank " + std::to_string(rank);
      const auto start = std::chrono::steady_clock::now();
      const ProgramResult result =
          run_shell("SLUICE_FAULT=" + c.fault + ":rank=" + std::to_string(rank) + ",step=2 " +
                    started_by("sluice launch", 4, layout(2, 2)));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      EXPECT_EQ(result.exit_code, c.exit_code) << text << result.err;
      EXPECT_LT(took.count(), c.seconds + 3) << text;  // with the way to step 2
      EXPECT_NE(result.err.find("sluice: error: process " + std::to_string(rank) + " (rank " +
                                std::to_string(rank) + ")"),
                std::string::npos)
          << text << result.err;
      EXPECT_EQ(lines_with("sluice: error:", result.err), 1) << text << result.err;
      EXPECT_EQ(left(), "") << text;
    }
  }
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
  EXPECT_NE(result.err.find("rank 1 was started for another run: its optimizer.lr is 0.5, that of "
                            "rank 0 is 0.001"),
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

TEST_F(ProcessesTest, ElasticRunsHaveTheBitsOfOneThatWasNeverStopped) {
  ASSERT_EQ(train(layout(1, 1)).exit_code, 0);
  const std::string expected = numbers();
  fs::remove_all(out());
  int steps = 0;
  for (const auto& [pp, dp, n] : {std::tuple{4, 1, 4}, {2, 2, 2}, {1, 4, 4}}) {
    std::vector<std::string> options = layout(pp, dp);
    options.push_back("--training.steps=" + std::to_string(++steps));
    if (steps == 2) options.push_back("--parallelism.zero1=true");
    const ProgramResult result = run_shell(started_by("sluice launch", n, options));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
  }
  EXPECT_EQ(numbers(), expected);
}

// How long a run under `sluice launch` takes with this fault; its exit code is not 0.
double seconds_with(const std::string& fault, const std::string& line) {
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult result = run_shell("SLUICE_FAULT=" + fault + " timeout 60 " + line);
  EXPECT_NE(result.exit_code, 0) << fault;
  EXPECT_NE(result.exit_code, 124) << fault << " hangs: " << result.err;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_F(ProcessesTest, SlowEveryFaultAtEveryInstructionOfEveryRankEndsAllInTime) {
  constexpr int kInstructions = 12;
  const std::string line = started_by("sluice launch", 4, layout(2, 2));
  for (const char* kind : {"kill", "stop", "exit", "throw"}) {
    for (int rank = 0; rank < 4; ++rank) {
      for (int instruction = 0; instruction < kInstructions - 1; ++instruction) {
        fs::remove_all(out());
        const std::string fault = std::string(kind) + ":rank=" + std::to_string(rank) +
                                  ",step=2,instruction=" + std::to_string(instruction);
        EXPECT_LT(seconds_with(fault, line), 3 + 2 + 5) << fault;
        EXPECT_EQ(left(), "") << fault;
      }
    }
  }
}

TEST_F(ProcessesTest, SlowTwoHundredStartsAndStopsHangNever) {
  const std::string line =
      "timeout 60 " + started_by("sluice launch", 4, layout(2, 2)) + " --training.steps=1";
  for (int i = 0; i < 200; ++i) {
    fs::remove_all(out());
    ASSERT_EQ(run_shell(line).exit_code, 0) << i;
  }
}

TEST_F(ProcessesTest, SlowTwoHundredRandomKillsEndInTheBitsOfTheCleanRun) {
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
    line.replace(line.find("launch -n 4"), 11, "launch -n 4 --max-restarts 40");
    // Every half second to two, one of the ranks, while the run lasts.
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

}  // namespace
}  // namespace sluice::testing
