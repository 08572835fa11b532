// A user program that calls sluice::run in several processes. It must have the bits of one process,
// report one error, and leave nothing behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "job/socket.h"
#include "support/run_program.h"

namespace sluice::testing {
namespace {

using Numbers = std::map<std::string, std::string>;

class LaunchedProgramTest : public ::testing::Test {
 protected:
  std::string line(int ranks, int replicas, const std::string& what = {}) const {
    return quoted_for_shell(SLUICE_PIPELINE_PROCESS) + " " + std::to_string(ranks) + " " +
           std::to_string(replicas) + " " + quoted_for_shell(folder_.str()) + " " + what;
  }
  static std::string launch(int n) {
    return quoted_for_shell(SLUICE_PROGRAM) + " launch -n " + std::to_string(n);
  }
  // `local` also sets the additional variables of torchrun.
  static std::string by_hand(int n, const std::string& program, bool local) {
    const std::string port = std::to_string(free_port()), size = std::to_string(n);
    std::string all;
    for (int process = 0; process < n; ++process) {
      const std::string number = std::to_string(process);
      all += "RANK=" + number + " WORLD_SIZE=" + size +
             " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " ";
      if (local) {
        all += "LOCAL_RANK=" + number + " LOCAL_WORLD_SIZE=" + size +
               " GROUP_RANK=0 OMP_NUM_THREADS=1 ";
      }
      all += program + " & p" + number + "=$!\n";
    }
    for (int process = 0; process < n; ++process)
      all += "wait $p" + std::to_string(process) + "; echo $?; ";
    return all + "true";
  }
  static std::string torchrun(int n, const std::string& program) {
    return std::string(SLUICE_TORCH_PYTHON) +
           " -m torch.distributed.run --no-python --nproc-per-node " + std::to_string(n) +
           " --master-port " + std::to_string(free_port()) + " " + program;
  }
  static int free_port() { return local_port(listen_at("127.0.0.1", 0)); }

  Numbers take_numbers() const {
    Numbers numbers;
    for (const std::string& name : test::list_directory(folder_.str())) {
      numbers[name] = test::read_file(folder_ / name);
      std::filesystem::remove(folder_ / name);
    }
    return numbers;
  }
  Numbers in_threads(int ranks, int replicas, const std::string& what = {}) const {
    const ProgramResult result = run_shell(line(ranks, replicas, what));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    Numbers numbers = take_numbers();
    EXPECT_EQ(numbers.size(), static_cast<std::size_t>(ranks * replicas));
    return numbers;
  }
  bool some_are_left() const {
    return run_shell("pgrep -f '^[^ ]*pipeline_process .*" + folder_.str() + "'").exit_code == 0;
  }

  test::TempDirectory folder_;
};

struct Spread {
  int ranks, replicas, processes;
};
constexpr Spread kSpreads[] = {{2, 1, 2}, {4, 1, 2}, {4, 1, 4}, {2, 2, 2}, {2, 2, 4}, {1, 2, 2}};

TEST_F(LaunchedProgramTest, HasTheBitsOfThreadsInEverySpread) {
  for (const auto& [ranks, replicas, processes] : kSpreads) {
    SCOPED_TRACE(::testing::Message() << ranks << " x " << replicas << " in " << processes);
    const Numbers expected = in_threads(ranks, replicas);
    const ProgramResult result = run_shell(launch(processes) + " -- " + line(ranks, replicas));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_TRUE(take_numbers() == expected);
  }
}

TEST_F(LaunchedProgramTest, HasTheBitsOfThreadsWhereReplicasShareStateOrParameters) {
  for (const char* shards : {"zero1", "zero3"}) {
    for (const int processes : {2, 4}) {
      SCOPED_TRACE(::testing::Message() << shards << " in " << processes);
      const Numbers expected = in_threads(2, 2, shards);
      const ProgramResult result = run_shell(launch(processes) + " -- " + line(2, 2, shards));
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_TRUE(take_numbers() == expected);
    }
  }
}

TEST_F(LaunchedProgramTest, HasTheBitsOfThreadsWhenStartedByHand) {
  for (const auto& [ranks, replicas, processes] : {Spread{2, 1, 2}, {4, 1, 4}, {2, 2, 2}}) {
    const Numbers expected = in_threads(ranks, replicas);
    for (const bool local : {false, true}) {
      SCOPED_TRACE(::testing::Message() << ranks << " x " << replicas << " in " << processes);
      const ProgramResult result = run_shell(by_hand(processes, line(ranks, replicas), local));
      EXPECT_EQ(result.out.find_first_not_of("0\n"), std::string::npos) << result.err;
      EXPECT_TRUE(take_numbers() == expected);
    }
  }
}

TEST_F(LaunchedProgramTest, HasTheBitsOfThreadsUnderTorchrun) {
  const std::string python = SLUICE_TORCH_PYTHON;
  if (python.empty() || run_shell(python + " -c 'import torch.distributed.run'").exit_code != 0)
    GTEST_SKIP() << "torchrun is not installed";
  const Numbers expected = in_threads(2, 2);
  const ProgramResult result = run_shell(torchrun(2, line(2, 2)));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(take_numbers() == expected);
}

TEST_F(LaunchedProgramTest, AProcessThatDiesIsNamedByTheOthers) {
  const ProgramResult launched = run_shell(launch(4) + " -- " + line(4, 1, "kill"));
  EXPECT_EQ(launched.exit_code, 128 + 9) << launched.err;
  EXPECT_TRUE(launched.err.starts_with("sluice: error: process 1 (rank 1), pid ")) << launched.err;
  EXPECT_NE(launched.err.find(" was ended by signal 9 (Killed); "), std::string::npos)
      << launched.err;
  EXPECT_EQ(std::count(launched.err.begin(), launched.err.end(), '\n'), 1) << launched.err;
  const ProgramResult alone = run_shell(by_hand(3, line(3, 1, "kill"), false));
  EXPECT_EQ(alone.out, "5\n137\n5\n") << alone.err;
  std::size_t named = 0;
  for (std::size_t at = 0;
       (at = alone.err.find("sluice: error: process 1 (rank 1), pid ", at)) != std::string::npos;
       ++at)
    ++named;
  EXPECT_EQ(named, 2u) << alone.err;
  EXPECT_FALSE(some_are_left());
}

TEST_F(LaunchedProgramTest, WhatABodyThrowsIsTheErrorOfAll) {
  const ProgramResult result = run_shell(launch(2) + " -- " + line(4, 1, "throw"));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("a defect of the user's"), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_FALSE(some_are_left());
}

TEST_F(LaunchedProgramTest, StartsAgainAfterAFailureThatMayNotComeAgain) {
  const Numbers expected = in_threads(2, 1);
  const std::string once =
      "test $_SLUICE_LAUNCH_RESTART = 0 && exec " + line(2, 1, "kill") + "; exec " + line(2, 1);
  const ProgramResult result =
      run_shell(launch(2) + " --max-restarts 1 -- sh -c " + quoted_for_shell(once));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("signal 9 (Killed): restart 1 of 1\n"), std::string::npos)
      << result.err;
  EXPECT_TRUE(take_numbers() == expected);
}

TEST_F(LaunchedProgramTest, WhatOneProcessPassesOtherwiseIsRefused) {
  for (const char* what : {"model", "microbatches", "ranks", "seed"}) {
    const ProgramResult result = run_shell(launch(2) + " -- " + line(2, 1, what));
    EXPECT_EQ(result.exit_code, 2) << what << "\n" << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << what << result.err;
    EXPECT_TRUE(result.err.starts_with("sluice: error: the processes differ: '")) << result.err;
    EXPECT_TRUE(take_numbers().empty()) << what;
  }
}

TEST_F(LaunchedProgramTest, OneRunFollowsAnother) {
  const Numbers expected = in_threads(2, 1);
  const ProgramResult launched = run_shell(launch(2) + " -- " + line(2, 1, "twice"));
  EXPECT_EQ(launched.exit_code, 0) << launched.err;
  EXPECT_TRUE(take_numbers() == expected);
  const ProgramResult alone = run_shell(by_hand(2, line(2, 1, "twice"), false));
  EXPECT_EQ(alone.out, "0\n0\n") << alone.err;
  EXPECT_TRUE(take_numbers() == expected);
}

TEST_F(LaunchedProgramTest, RanksThatTheProcessesDoNotDivideAreRefused) {
  const ProgramResult result = run_shell(launch(2) + " -- " + line(3, 1));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(
      result.err.starts_with("sluice: error: 3 ranks cannot be spread evenly over the 2 "
                             "processes that sluice launch has started; "))
      << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

}  // namespace
}  // namespace sluice::testing
