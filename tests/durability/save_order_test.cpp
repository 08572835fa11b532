#include "support/save_order.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "io/published_directory.h"
#include "sluice/checkpoint.h"
#include "watched_run.h"

namespace sluice::testing {
namespace {

using test::FileCall;
using test::Tree;

class SaveOrderTest : public WatchedRunTest {
 protected:
  // Returns the earlier content of out().
  Tree record(const std::vector<std::string>& overrides, const Faults& faults = {}) {
    fs::create_directories(out());
    const Tree before = test::read_tree(out());
    const ProgramResult result = watch(out(), faults, overrides);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return before;
  }

  static std::set<int> listed_here(const std::string& folder) {
    std::set<int> ok;
    for (const ListedCheckpoint& listed : list_checkpoints(folder, 1))
      if (listed.ok) ok.insert(static_cast<int>(listed.step));
    return ok;
  }

  // Without markers, the remains of a power loss must be recognizable, so that the next save may
  // remove them.
  static std::string blocks_the_name(const Tree& state) {
    std::map<std::string, std::set<std::string>> files;
    for (const auto& [path, node] : state) {
      if (!path.starts_with("checkpoint/step-")) continue;
      const std::string step = path.substr(0, path.find('/', sizeof "checkpoint"));
      std::set<std::string>& of_step = files[step];
      if (path != step) of_step.insert(path.substr(step.size() + 1));
    }
    for (const auto& [step, of_step] : files) {
      if (!of_step.empty() && !of_step.contains("manifest.json") &&
          !of_step.contains(".sluice-incomplete"))
        return step + " is neither committed nor known as incomplete";
    }
    return {};
  }

  // The program must find the checkpoints that the model expects. Checks every 100th state.
  std::string is_listed(const Tree& state, const test::Known& known, const test::Saving& saving) {
    if (num_seen_++ % 100 != 0) return {};
    const test::TempDirectory disk;
    test::write_tree(state, disk.str());
    std::set<int> whole;
    for (const std::string& step : test::judge(state, known, saving).whole)
      whole.insert(std::stoi(step.substr(step.rfind('-') + 1)));
    const std::set<int> found = listed_here(disk / "checkpoint");
    ++num_listed_;
    return found == whole ? ""
                          : "listed are " + ::testing::PrintToString(found) + ", whole are " +
                                ::testing::PrintToString(whole);
  }

  void expect_survives(const Tree& before, const test::Saving& saving,
                       const std::vector<std::string>& commits) {
    const std::vector<FileCall> recorded = calls();
    test::FileSystemModel model(before);
    for (const FileCall& call : recorded) model.play(call);
    // If the library had missed a call, the model's folder would differ.
    ASSERT_EQ(difference(test::read_tree(out()), model.now()), "");

    const test::OrderReport order = check_save_order(before, recorded, saving);
    EXPECT_EQ(order.commits, commits);
    EXPECT_EQ(order.broken, std::vector<std::string>());
    const test::Known known = committed_contents(before, recorded, saving);
    num_listed_ = 0;
    const test::LossReport losses =
        check_power_losses(before, recorded, saving, 1, 7, [&](const Tree& state) {
          const std::string blocks = blocks_the_name(state);
          return blocks.empty() ? is_listed(state, known, saving) : blocks;
        });
    EXPECT_GT(num_listed_, losses.num_states / 120);
    EXPECT_GT(losses.num_states, 4 * static_cast<long>(recorded.size()));
    EXPECT_TRUE(losses.broken.empty())
        << losses.broken.size() << " of " << losses.num_states << " states, first\n"
        << losses.broken.front();
    std::cout << recorded.size() << " calls, " << losses.num_states << " states, " << num_listed_
              << " of them on disk\n";
  }

  long num_seen_ = 0, num_listed_ = 0;
};

const std::vector<std::string> kAnew = {"--training.steps=1", "--optimizer.lr=1e-2",
                                        "--checkpoint.resume=none"};
const std::vector<std::string> kKeepsOne = {"--training.steps=2", "--checkpoint.keep_latest_k=1"};

TEST_F(SaveOrderTest, AFirstSaveAndOneBesideItSurviveAPowerLoss) {
  Tree before = record({"--training.steps=1"});
  expect_survives(before, {}, {"checkpoint/" + step_name(1)});
  before = record({"--training.steps=2"});
  expect_survives(before, {}, {"checkpoint/" + step_name(2)});
}

TEST_F(SaveOrderTest, ACheckpointThatIsReplacedSurvivesAPowerLoss) {
  record({"--training.steps=1"});
  const Tree before = record(kAnew);
  expect_survives(before, {}, {"checkpoint/" + step_name(1)});
}

TEST_F(SaveOrderTest, OlderCheckpointsGoOnlyWhenALaterOneSurvivesAPowerLoss) {
  record({"--training.steps=1"});
  const Tree before = record(kKeepsOne);
  EXPECT_EQ(listed_here(checkpoints()), std::set<int>{2});
  expect_survives(before, {}, {"checkpoint/" + step_name(2)});
}

TEST_F(SaveOrderTest, WithAMarkerSavesAndRemovalsSurviveAPowerLoss) {
  const test::Saving marker{.marker = true};
  Tree before = record({"--training.steps=1", "--checkpoint.commit=marker"});
  expect_survives(before, marker, {"checkpoint/" + step_name(1)});
  std::vector<std::string> more = kKeepsOne;
  more.push_back("--checkpoint.commit=marker");
  before = record(more);
  EXPECT_EQ(listed_here(checkpoints()), std::set<int>{2});
  expect_survives(before, marker, {"checkpoint/" + step_name(2)});
}

// Between the two renames no checkpoint has the name. The next run repairs this before it searches.
TEST_F(SaveOrderTest, WhereNamesCannotBeExchangedTheNextRunFindsTheOldOrTheNew) {
  record({"--training.steps=1"});
  const Tree before = record(kAnew, {.no_exchange = true});
  const std::vector<FileCall> recorded = calls();
  test::FileSystemModel model(before);
  std::mt19937_64 random(7);
  bool replaces = false;
  int num_states = 0, num_without = 0;
  for (const FileCall& call : recorded) {
    model.play(call);
    replaces = replaces || (call.name == "rename" && call.other == "checkpoint/" + step_name(1));
    if (!replaces) continue;
    model.for_each_power_loss(random, 0, [&](const Tree& state, const std::string& loss) {
      const test::TempDirectory disk;
      test::write_tree(state, disk.str());
      num_without += listed_here(disk / "checkpoint").empty();
      io::restore_moved_steps(disk / "checkpoint");
      EXPECT_EQ(listed_here(disk / "checkpoint"), std::set<int>{1}) << call.text() << ", " << loss;
      ++num_states;
    });
  }
  EXPECT_GT(num_states, 20);
  EXPECT_GT(num_without, 0);
}

// Removes each fsync from the log in turn. The rules must fail exactly if a power loss can then
// lose data.
TEST_F(SaveOrderTest, ASyncThatIsLeftOutIsNoticed) {
  record({"--training.steps=1"});
  const Tree before = record(kAnew);
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
  EXPECT_GT(files, 4);    // one file per rank, and common files
  EXPECT_GT(folders, 1);  // the new folder and its parent
}

}  // namespace
}  // namespace sluice::testing
