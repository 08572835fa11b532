#include "job/earlier_run.h"

#include <gtest/gtest.h>

#include <filesystem>

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
  void leave_metrics() const { test::write_file(folder_ / "out/metrics.jsonl", "{}\n"); }

  const test::TempDirectory folder_;
  RunConfig config_;
};

TEST_F(EarlierRunTest, NothingIsSaidWhereNothingIs) {
  EXPECT_EQ(earlier_run_warning(config_), "");
  test::write_file(folder_ / "ck/notes.txt", "");
  leave_step("step-00000100.kept-1");
  leave_step("step-");
  EXPECT_EQ(earlier_run_warning(config_), "");
}

TEST_F(EarlierRunTest, NamesWhatIsThereAndWhatWillBeReplaced) {
  leave_step("step-00000047");
  EXPECT_EQ(earlier_run_warning(config_), "an earlier run left step-00000047 in " +
                                              (folder_ / "ck") +
                                              "; it is not resumed, this run begins at step 1");
  leave_step("step-00000100");
  leave_metrics();
  EXPECT_EQ(earlier_run_warning(config_),
            "an earlier run left 2 checkpoints up to step-00000100 in " + (folder_ / "ck") +
                " and metrics.jsonl in " + (folder_ / "out") +
                "; it is not resumed, this run begins at step 1; this run replaces metrics.jsonl "
                "and step-00000100");
}

TEST_F(EarlierRunTest, BeginningAnewIsNotWarnedOfButReplacing) {
  config_.checkpoint.resume = "none";
  leave_step("step-00000047");
  EXPECT_EQ(earlier_run_warning(config_), "");
  leave_metrics();
  EXPECT_EQ(earlier_run_warning(config_),
            "an earlier run left step-00000047 in " + (folder_ / "ck") + " and metrics.jsonl in " +
                (folder_ / "out") + "; this run replaces metrics.jsonl");
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
