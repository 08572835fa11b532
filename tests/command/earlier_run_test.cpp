#include "command/output_folders.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/checkpoint_folder.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class EarlierRunTest : public testing::Test {
 protected:
  EarlierRunTest() {
    config_.checkpoint.folder = folder_ / "ck";
    config_.metrics.folder = folder_ / "out";
    config_.training.steps = 100;
  }
  void leave_step(const std::string& name) const {
    test::write_file(folder_ / "ck/" + name + "/config.json", "{}");
  }
  void leave_checkpoint(const std::string& name, std::int64_t step) const {
    test::write_checkpoint(folder_ / "ck/" + name, step);
  }
  std::string warning() const { return earlier_run_warning(config_, begins_); }
  ResumePoint after(const std::string& name) const {
    ResumePoint point;
    point.checkpoint.emplace(folder_ / "ck/" + name);
    point.done.steps = point.checkpoint->manifest().step;
    point.run = point.checkpoint->manifest().run;
    point.generation = point.checkpoint->manifest().generation;
    return point;
  }
  void leave_metrics() const { test::write_file(folder_ / "out/metrics.jsonl", "{}\n"); }

  const test::TempDirectory folder_;
  RunConfig config_;
  const ResumePoint begins_ = new_run();
};

TEST_F(EarlierRunTest, NothingIsSaidWhereNothingIs) {
  EXPECT_EQ(warning(), "");
  test::write_file(folder_ / "ck/notes.txt", "");
  leave_step("step-00000100.kept-1");
  leave_step("step-");
  EXPECT_EQ(warning(), "");
}

TEST_F(EarlierRunTest, NamesWhatIsThereAndWhatWillBeReplaced) {
  leave_step("step-00000047");
  EXPECT_EQ(warning(), "an earlier run left step-00000047 in " + (folder_ / "ck") +
                           "; this run starts at step 1");
  leave_step("step-00000100");
  leave_metrics();
  EXPECT_EQ(warning(), "an earlier run left 2 checkpoints up to step-00000100 in " +
                           (folder_ / "ck") + " and metrics.jsonl in " + (folder_ / "out") +
                           "; this run starts at step 1 and replaces metrics.jsonl and "
                           "step-00000100");
  config_.checkpoint.interval = 47;
  EXPECT_TRUE(warning().ends_with("metrics.jsonl and step-00000047 and step-00000100"));
}

TEST_F(EarlierRunTest, BeginningAnewIsNotWarnedOfButReplacing) {
  config_.checkpoint.resume = {ResumeFrom::kNone};
  leave_step("step-00000047");
  EXPECT_EQ(warning(), "");
  leave_metrics();
  EXPECT_EQ(warning(), "an earlier run left step-00000047 in " + (folder_ / "ck") +
                           " and metrics.jsonl in " + (folder_ / "out") +
                           "; this run starts at step 1 and replaces metrics.jsonl");
}

TEST_F(EarlierRunTest, BeginningAnewBesideACheckpointSaysWhatAutoMeansUntilThereIsALaterOne) {
  config_.checkpoint.resume = {ResumeFrom::kNone};
  leave_checkpoint("step-00000047", 47);
  EXPECT_EQ(warning(), "an earlier run left step-00000047 in " + (folder_ / "ck") +
                           "; this run starts at step 1; until this run has a checkpoint, "
                           "checkpoint.resume = \"auto\" resumes the earlier run");
}

TEST_F(EarlierRunTest, ARunThatGoesOnSaysOnlyWhichLaterStepsItReplaces) {
  leave_checkpoint("step-00000040", 40);
  leave_metrics();
  EXPECT_EQ(earlier_run_warning(config_, after("step-00000040")), "");
  leave_step("step-00000060");
  leave_step("step-00000100");
  leave_step("step-00000200");
  EXPECT_EQ(earlier_run_warning(config_, after("step-00000040")),
            "an earlier run left step-00000100 in " + (folder_ / "ck") +
                "; this run replaces step-00000100");
}

TEST_F(EarlierRunTest, AModelThatTheRunMayReplaceIsRefusedWhateverItsPathLooksLike) {
  leave_step("step-00000047");
  leave_step("step-00000101");
  fs::create_directory_symlink(folder_ / "ck/step-00000047", folder_ / "link");
  for (const char* path : {"ck/step-00000047", "ck/../ck/step-00000047/", "link"}) {
    config_.model.path = folder_ / path;
    const Error error = test::error_of([&] { require_model_is_kept(config_); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.fact(),
              "model.path is 'step-00000047' of checkpoint.folder, which this run may replace with "
              "its own step 47");
    EXPECT_NE(error.remedy().find("checkpoint.folder"), std::string::npos);
  }
  config_.model.path = folder_ / "ck/step-00000101";  // beyond the last step of this run
  EXPECT_NO_THROW(require_model_is_kept(config_));
  config_.model.path = "";
  EXPECT_NO_THROW(require_model_is_kept(config_));
}

TEST_F(EarlierRunTest, MetricsThatTheRunReplacesAreNoData) {
  leave_metrics();
  test::write_file(folder_ / "out/text.txt", "text");
  config_.data.files = {folder_ / "out/*.txt"};
  EXPECT_NO_THROW(require_data_is_kept(config_));
  config_.data.files.push_back(folder_ / "out/../out/metrics.jsonl");
  const Error error = test::error_of([&] { require_data_is_kept(config_); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.fact(), "data.files has the metrics.jsonl that this run replaces");
}

}  // namespace
}  // namespace sluice
