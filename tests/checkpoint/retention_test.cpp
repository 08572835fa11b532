#include "checkpoint/retention.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/log.h"
#include "checkpoint/manifest.h"
#include "io/step_name.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"
#include "support/checkpoint_folder.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

const std::string kOwn = "00000000000000aa", kOther = "00000000000000bb";

class RetentionTest : public ::testing::Test {
 protected:
  std::string path(std::int64_t step) const { return folder_ / io::step_name(step); }
  void leave(std::int64_t step, const std::string& run = kOwn) const {
    Manifest manifest = write_checkpoint(path(step), step);
    manifest.run = run;
    write_file(path(step) + "/" + kManifestFile, to_json(manifest));
  }
  void leave_all(const std::vector<std::int64_t>& steps, const std::string& run = kOwn) const {
    for (const std::int64_t step : steps) leave(step, run);
  }

  std::vector<std::int64_t> superseded(std::int64_t step, std::int64_t keep_latest_k,
                                       std::int64_t keep_every = 0) const {
    std::vector<std::int64_t> steps;
    for (const std::string& found :
         superseded_checkpoints(folder_.str(), step, {kOwn, keep_latest_k, keep_every})) {
      EXPECT_EQ(fs::path(found).parent_path(), folder_.str());
      steps.push_back(*io::step_of_name(fs::path(found).filename().string()));
    }
    return steps;
  }

  const TempDirectory folder_;
};

using Steps = std::vector<std::int64_t>;

TEST_F(RetentionTest, TheNewestAreKeptAndSoAreStepsThatAreToStay) {
  leave_all({5, 10, 15, 20, 25, 30});
  EXPECT_EQ(superseded(30, 3), (Steps{5, 10, 15}));
  EXPECT_EQ(superseded(30, 1), (Steps{5, 10, 15, 20, 25}));
  EXPECT_EQ(superseded(30, 3, 10), (Steps{5, 15}));
  EXPECT_EQ(superseded(30, 1, 7), (Steps{5, 10, 15, 20, 25}));
  EXPECT_EQ(superseded(30, 6), Steps());
  EXPECT_EQ(superseded(30, 100), Steps());
  EXPECT_EQ(superseded(30, 0), Steps()) << "all are kept";
}

TEST_F(RetentionTest, LaterStepsNeitherCountNorGo) {
  leave_all({5, 10, 15, 20, 25});  // the run resumed from 5 and is now at 15
  EXPECT_EQ(superseded(15, 1), (Steps{5, 10}));
  EXPECT_EQ(superseded(15, 3), Steps());
}

TEST_F(RetentionTest, WhatIsNotOfThisRunNeitherCountsNorGoes) {
  leave_all({1, 3, 8}, kOther);
  leave_all({2, 4, 9});
  fs::remove(path(2) + "/" + kManifestFile);  // without a manifest it is not committed
  write_file(folder_ / "step-00000005/config.json", "{}");
  write_file(folder_ / "step-6/manifest.json", read_file(path(4) + "/manifest.json"));
  EXPECT_EQ(superseded(9, 1), Steps{4});
  EXPECT_EQ(superseded(9, 2), Steps());
  EXPECT_EQ(superseded(8, 1), Steps()) << "another's";
}

TEST_F(RetentionTest, WithoutTheCheckpointThatWasCommittedNothingGoes) {
  leave_all({1, 2, 3});
  EXPECT_EQ(superseded(4, 1), Steps());
  fs::remove(path(3) + "/" + kManifestFile);
  EXPECT_EQ(superseded(3, 1), Steps());
  leave(3);
  fs::resize_file(path(3) + "/" + kManifestFile, 100);
  EXPECT_EQ(superseded(3, 1), Steps());
}

TEST_F(RetentionTest, ACheckpointUnderAnotherNameOrWithForeignFilesStays) {
  leave_all({1, 2, 3, 4, 5, 6, 9});
  write_file(path(1) + "/notes.txt", "mine");
  write_file(path(2) + "/optimizer/notes.safetensors", "mine");
  fs::create_directory(path(3) + "/folder");
  fs::remove(path(4) + "/tokenizer.json");
  fs::create_symlink("/nowhere", path(4) + "/tokenizer.json");
  fs::rename(path(5), path(7));
  fs::create_directory_symlink(path(6), path(8));
  EXPECT_EQ(superseded(9, 1), Steps{6});
}

TEST_F(RetentionTest, WhatCannotBeRemovedStaysWithAWarningAndTheOthersGo) {
  leave_all({1, 2, 3});
  std::string said;
  set_log_sink([&](LogLevel, std::string_view message) { said += message; });
  remove_superseded(folder_.str(), 3, {kOwn, 1, 0}, [&](const std::string& doomed) {
    if (doomed == path(1)) throw Error(ErrorKind::kCheckpoint, {.what = "busy", .where = doomed});
    fs::remove_all(doomed);
  });
  set_log_sink({});
  EXPECT_EQ(said, "cannot remove older checkpoints: busy; " + path(1));
  EXPECT_EQ(list_directory(folder_.str()),
            (std::set<std::string>{"step-00000001", "step-00000003"}));
  EXPECT_NO_THROW(Checkpoint(path(3)).verify());
}

}  // namespace
}  // namespace sluice::test
