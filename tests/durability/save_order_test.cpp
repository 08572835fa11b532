// The order of the file-system calls of a save: what a power loss may leave of it at any point.
#include "support/save_order.h"

#include <gtest/gtest.h>

#include "watched_run.h"

namespace sluice::testing {
namespace {

using test::FileCall;
using test::Tree;

class SaveOrderTest : public WatchedRunTest {
 protected:
  // Runs, and returns what was in out() before.
  Tree record(const std::vector<std::string>& overrides, const Faults& faults = {}) {
    fs::create_directories(out());
    const Tree before = test::read_tree(out());
    const ProgramResult result = watch(out(), faults, overrides);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return before;
  }

  void expect_survives(const Tree& before, const test::Saving& saving,
                       const std::vector<std::string>& commits) {
    const std::vector<FileCall> recorded = calls();
    test::FileSystemModel model(before);
    for (const FileCall& call : recorded) model.play(call);
    // A call that the library does not see would leave the model with another folder.
    ASSERT_EQ(difference(test::read_tree(out()), model.now()), "");

    const test::OrderReport order = check_save_order(before, recorded, saving);
    EXPECT_EQ(order.commits, commits);
    EXPECT_EQ(order.broken, std::vector<std::string>());
    const test::LossReport losses = check_power_losses(before, recorded, saving, 4, 7);
    EXPECT_GT(losses.num_states, 4 * static_cast<long>(recorded.size()));
    EXPECT_TRUE(losses.broken.empty())
        << losses.broken.size() << " of " << losses.num_states << " states, first\n"
        << losses.broken.front();
  }
};

TEST_F(SaveOrderTest, AFirstSaveAndOneBesideItSurviveAPowerLoss) {
  Tree before = record({"--training.steps=1"});
  expect_survives(before, {}, {"checkpoint/" + step_name(1)});
  before = record({"--training.steps=2"});
  expect_survives(before, {}, {"checkpoint/" + step_name(2)});
}

TEST_F(SaveOrderTest, ACheckpointThatIsReplacedSurvivesAPowerLoss) {
  record({"--training.steps=1"});
  const Tree before = record({"--training.steps=1", "--optimizer.lr=1e-2"});
  expect_survives(before, {}, {"checkpoint/" + step_name(1)});
}

// Each fsync of the log in turn is taken out: was it needed, the rules must miss it.
TEST_F(SaveOrderTest, ASyncThatIsLeftOutIsNoticed) {
  record({"--training.steps=1"});
  const Tree before = record({"--training.steps=1", "--optimizer.lr=1e-2"});
  const std::vector<FileCall> recorded = calls();
  const std::string prefix = "checkpoint/.step-00000001.tmp-";
  int files = 0, folders = 0;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    if (recorded[i].name != "fsync" || !recorded[i].path.starts_with("checkpoint")) continue;
    std::vector<FileCall> without = recorded;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    const bool noticed = !check_save_order(before, without, {}).broken.empty();
    const bool lost = !check_power_losses(before, without, {}, 0, 7).broken.empty();
    EXPECT_EQ(noticed, lost) << recorded[i].text();
    const bool of_file = recorded[i].path.find('/', prefix.size()) != std::string::npos;
    if (of_file) {
      EXPECT_TRUE(noticed) << recorded[i].text();
    }
    files += of_file && noticed;
    folders += !of_file && noticed;
  }
  EXPECT_GT(files, 4);    // a file of each rank, and those beside
  EXPECT_GT(folders, 1);  // the new folder, and the one above it
}

}  // namespace
}  // namespace sluice::testing
