#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "watched_run.h"

namespace sluice::testing {
namespace {

using Clock = std::chrono::steady_clock;

class RandomKillsTest : public WatchedRunTest {
 protected:
  void kill_and_resume(int num_kills, int steps, int interval, std::uint64_t seed) {
    const std::vector<std::string> overrides = {
        "--training.steps=" + std::to_string(steps),
        "--checkpoint.interval=" + std::to_string(interval)};
    const auto begin = Clock::now();
    ASSERT_EQ(train_four(overrides).exit_code, 0);
    const std::chrono::duration<double> whole = Clock::now() - begin;
    keep_a_copy("clean");
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> moment(0.2 * whole.count(), 0.9 * whole.count());
    int kills = 0, rounds = 0;
    while (kills < num_kills && !HasFailure()) {
      fs::remove_all(out());
      ++rounds;
      int newest = 0;
      while (kills < num_kills && killed_after(moment(random), overrides)) {
        ++kills;
        newest = expect_no_step_is_lost(newest);
      }
      const ProgramResult last = train_four(overrides);
      ASSERT_EQ(last.exit_code, 0) << last.err;
      expect_same_as("clean", "round " + std::to_string(rounds));
    }
    RecordProperty("rounds", rounds);
  }

 private:
  // Returns false if the run had finished already.
  bool killed_after(double seconds, const std::vector<std::string>& overrides) const {
    const pid_t child = fork();
    if (child == 0) {
      const std::string line = "exec " + command(over_four_ranks(overrides)) + " >/dev/null 2>" +
                               quoted_for_shell(err());
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) return true;
    EXPECT_EQ(WEXITSTATUS(status), 0) << test::read_file(err());
    return false;
  }

  int expect_no_step_is_lost(int newest) const {
    if (!fs::exists(checkpoints())) return newest;
    const Listed found = listed();
    EXPECT_EQ(found.others, "");
    const int now = found.ok.empty() ? 0 : *found.ok.rbegin();
    EXPECT_GE(now, newest);
    return now;
  }
};

TEST_F(RandomKillsTest, ARunKilledAtRandomMomentsEndsInTheBitsOfACleanOne) {
  kill_and_resume(5, 60, 4, 11);
}

class RandomKillsSlowTest : public RandomKillsTest {};

TEST_F(RandomKillsSlowTest, TwoHundredKillsOfLongRuns) { kill_and_resume(200, 400, 7, 12); }

}  // namespace
}  // namespace sluice::testing
