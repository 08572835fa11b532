// If a run is killed before any call of a save, the old or the new checkpoint must be complete.
// Running the command again must give the result of an uninterrupted run.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "watched_run.h"

namespace sluice::testing {
namespace {

using Steps = std::set<int>;

struct Sweep {
  std::vector<std::string> overrides;  // of the killed run, which starts after step 2
  std::set<Steps> allowed;             // sets of checkpoints that may be complete afterwards
  bool marker = false;
  std::vector<std::string> next = {};  // of the following run; empty for the same overrides
  bool no_exchange = false;
  // The killed run starts afresh. If it is killed after its save, its checkpoint has a new
  // generation, which the next run replaces or resumes.
  bool begins_anew = false;
};

const Sweep kBesideAnother{{"--training.steps=3"}, {{2}, {2, 3}}};
const Sweep kInsteadOfOlder{{"--training.steps=3", "--checkpoint.keep_latest_k=1"},
                            {{2}, {2, 3}, {3}}};
const Sweep kEachStepInsteadOfOlder{
    {"--training.steps=4", "--checkpoint.interval=1", "--checkpoint.keep_latest_k=1"},
    {{2}, {2, 3}, {3}, {3, 4}, {4}}};
const Sweep kMarker{
    {"--training.steps=3", "--checkpoint.keep_latest_k=1", "--checkpoint.commit=marker"},
    {{2}, {2, 3}, {3}},
    true};
const Sweep kReplacing{.overrides = {"--training.steps=2", "--checkpoint.resume=none"},
                       .allowed = {{2}},
                       .begins_anew = true};
// Between the two renames no checkpoint has the name. The next run restores it.
const Sweep kReplacingWithoutExchange{
    .overrides = {"--training.steps=2", "--checkpoint.resume=none"},
    .allowed = {{2}, {}},
    .next = {"--training.steps=3"},
    .no_exchange = true,
    .begins_anew = true};

class KillSweepTest : public WatchedRunTest {
 protected:
  // Kills at `sample` calls; 0 means at every call.
  void sweep(const Sweep& sweep, std::size_t sample) {
    const std::string marker = sweep.marker ? "marker" : "rename";
    ASSERT_EQ(train_four({"--training.steps=2", "--checkpoint.commit=" + marker}).exit_code, 0);
    keep_a_copy("before");
    const ProgramResult whole = watch(out(), {.no_exchange = sweep.no_exchange}, sweep.overrides);
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    const std::vector<test::FileCall> recorded = calls();
    if (!sweep.next.empty()) {
      ASSERT_EQ(train_four(sweep.next).exit_code, 0);
    }
    keep_a_copy("clean");
    const std::size_t count = sample == 0 ? recorded.size() : sample;
    for (const long n : sampled_calls(recorded, count)) {
      if (n <= static_cast<long>(recorded.size()) && !HasFatalFailure()) kill_before(n, sweep);
    }
    RecordProperty("points", num_points_);
    std::cout << num_points_ << " points of " << recorded.size() << " calls\n";
    EXPECT_LE(num_between_, sweep.no_exchange ? 1 : 0);
  }

 private:
  void kill_before(long n, const Sweep& sweep) {
    restore("before");
    const ProgramResult killed =
        watch(out(), {.kill = n, .no_exchange = sweep.no_exchange}, sweep.overrides);
    EXPECT_EQ(killed.exit_code, 128 + SIGKILL) << n;
    ++num_points_;
    const std::vector<test::FileCall> made = calls();
    const std::string after = "killed before call " + std::to_string(n) + ", after '" +
                              (made.empty() ? "" : made.back().text()) + "'\n";
    const Listed found = listed();
    EXPECT_TRUE(sweep.allowed.contains(found.ok)) << after << ::testing::PrintToString(found.ok);
    // With markers, an uncommitted folder also has a checkpoint's name.
    if (!sweep.marker) {
      EXPECT_EQ(found.others, "") << after;
    }

    num_between_ += found.ok.empty();
    const std::vector<std::string> expected = lines_of_next(sweep, after);
    const ProgramResult again = train_four(sweep.next.empty() ? sweep.overrides : sweep.next);
    ASSERT_EQ(again.exit_code, 0) << after << again.err;
    expect_same_checkpoints_as("clean", after, sweep.begins_anew);
    EXPECT_EQ(what_was_computed(out()), expected) << after;
  }

  // A run that starts afresh replaces metrics.jsonl. The next run appends its step.
  std::vector<std::string> lines_of_next(const Sweep& sweep, const std::string& after) const {
    const std::vector<std::string> clean = what_was_computed(folder_ / "clean");
    if (!sweep.begins_anew || sweep.next.empty()) return clean;
    std::vector<std::string> lines = what_was_computed(out());
    EXPECT_EQ(std::mismatch(lines.begin(), lines.end(), clean.begin(), clean.end()).first,
              lines.end())
        << after << ::testing::PrintToString(lines);
    lines.push_back(clean.back());
    return lines;
  }

  int num_points_ = 0, num_between_ = 0;
};

TEST_F(KillSweepTest, AKilledSaveLeavesTheOldOrTheNewCheckpointAndTheNextRunGoesOn) {
  sweep(kBesideAnother, 4);
}

TEST_F(KillSweepTest, AKillWhileOldCheckpointsGoLeavesOneWhole) { sweep(kInsteadOfOlder, 4); }

TEST_F(KillSweepTest, AKillBeforeOrAfterAMarkerLeavesOneWhole) { sweep(kMarker, 4); }

TEST_F(KillSweepTest, AKillWhileACheckpointIsReplacedLeavesTheOldOrTheNewOne) {
  sweep(kReplacing, 4);
}

TEST_F(KillSweepTest, AKillBetweenTwoRenamesLeavesACheckpointThatComesBack) {
  sweep(kReplacingWithoutExchange, 4);
}

class KillSweepSlowTest : public KillSweepTest {};

TEST_F(KillSweepSlowTest, EveryCallOfASaveBesideAnother) { sweep(kBesideAnother, 0); }
TEST_F(KillSweepSlowTest, EveryCallOfSavesWithRetention) { sweep(kEachStepInsteadOfOlder, 0); }
TEST_F(KillSweepSlowTest, EveryCallOfSavesWithAMarker) { sweep(kMarker, 0); }
TEST_F(KillSweepSlowTest, EveryCallOfASaveThatReplaces) { sweep(kReplacing, 0); }
TEST_F(KillSweepSlowTest, EveryCallOfASaveThatReplacesWithoutExchange) {
  sweep(kReplacingWithoutExchange, 0);
}

}  // namespace
}  // namespace sluice::testing
