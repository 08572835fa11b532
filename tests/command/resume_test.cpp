#include "command/resume.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "base/format.h"
#include "checkpoint/manifest.h"
#include "engine/rank_threads.h"
#include "io/step_name.h"
#include "sluice/options.h"
#include "support/checkpoint_folder.h"
#include "support/expect_error.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    config_ = load_run_config("", {{"checkpoint.folder", folder_ / "ck"}}, {});
    made_of_.settings = {{"optimizer.lr", "0.001"}, {"training.seq_len", "16"}};
    made_of_.of = {{"configuration", {1, content_hash("c")}},
                   {"model", {2000, content_hash("m")}},
                   {"data", {3000, content_hash("d")}}};
    made_of_.model_config = R"({"model_type":"none"})";
  }

  std::string path(std::int64_t step) const { return folder_ / ("ck/" + io::step_name(step)); }

  void leave(std::int64_t step, const std::function<void(Manifest&)>& change = {}) const {
    Manifest manifest = write_checkpoint(path(step), step);
    manifest.fingerprints = made_of_.of;
    manifest.settings = made_of_.settings;
    if (change) change(manifest);
    write_file(path(step) + "/" + kManifestFile, to_json(manifest));
  }
  void damage(std::int64_t step) const {
    const std::string file = path(step) + "/model-00002-of-00002.safetensors";
    std::string bytes = read_file(file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(file, bytes);
  }
  void uncommit(std::int64_t step) const { fs::remove(path(step) + "/" + kManifestFile); }

  ResumePoint found() const { return find_resume_point(config_, made_of_); }
  Error refusal() const {
    return error_of([&] { found(); });
  }
  void expect_begins(const ResumePoint& point) const {
    EXPECT_FALSE(point.checkpoint);
    EXPECT_EQ(point.done, StepsDone());
    EXPECT_EQ(point.run.size(), 16u);
    EXPECT_FALSE(is_finished(config_, point));
  }

  const TempDirectory folder_;
  RunConfig config_;
  RunFingerprints made_of_;
};

TEST_F(ResumeTest, WithoutACheckpointARunBeginsUnderANewName) {
  const ResumePoint first = found(), second = found();
  expect_begins(first);
  EXPECT_NE(first.run, second.run);
  EXPECT_TRUE(first.warnings.empty());
  EXPECT_FALSE(fs::exists(folder_ / "ck"));
}

TEST_F(ResumeTest, GoesOnFromTheNewestUnderTheNameOfItsRun) {
  leave(5);
  leave(10);
  leave(9);
  const ResumePoint point = found();
  EXPECT_EQ(point.checkpoint.value().path(), path(10));
  EXPECT_EQ(point.done, (StepsDone{10, {80}}));
  EXPECT_EQ(point.run, "0123456789abcdef");
  EXPECT_TRUE(point.warnings.empty());
  config_.checkpoint.resume = {ResumeFrom::kNone};
  expect_begins(found());
}

TEST_F(ResumeTest, TheNewestIsTheLatestStepOfTheRunThatBeganLast) {
  leave(5);
  leave(10);
  EXPECT_EQ(found().generation, 0);
  // A run that goes back or starts afresh gets the next generation.
  config_.checkpoint.resume = {ResumeFrom::kStep, 5};
  EXPECT_EQ(found().generation, 1);
  config_.checkpoint.resume = {ResumeFrom::kNone};
  EXPECT_EQ(found().generation, 1);
  leave(7, [](Manifest& manifest) { manifest.generation = 1; });
  config_.checkpoint.resume = {ResumeFrom::kNewest};
  const ResumePoint point = found();
  EXPECT_EQ(point.checkpoint.value().path(), path(7));
  EXPECT_EQ(point.generation, 1);
  EXPECT_TRUE(point.warnings.empty());
  config_.checkpoint.resume = {ResumeFrom::kStep, 10};
  EXPECT_EQ(found().generation, 2);
}

TEST_F(ResumeTest, DamagedManifestIsAnErrorNotAFreshStart) {
  leave(5);
  std::string text = read_file(path(5) + "/manifest.json");
  text[text.size() / 2] ^= 1;
  write_file(path(5) + "/manifest.json", text);
  const Error error = refusal();
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(error.where(), path(5));
  // An interrupted save may leave a partial manifest.
  write_file(path(5) + "/.sluice-incomplete", "");
  expect_begins(found());
}

TEST_F(ResumeTest, SkipsWhatIsDamagedOrNotCommittedAndSaysWhy) {
  leave(5);
  leave(10);
  damage(10);
  leave(15);
  uncommit(15);
  leave(20);
  fs::resize_file(path(20) + "/manifest.json", 100);
  leave(25);
  fs::rename(path(25), path(26));
  fs::create_directory_symlink(path(5), path(30));
  const ResumePoint point = found();
  EXPECT_EQ(point.checkpoint.value().path(), path(5));
  ASSERT_EQ(point.warnings.size(), 5u);
  const auto expect = [&](std::size_t i, std::int64_t step, const std::string& reason) {
    const std::string begin = "skipped the checkpoint " + path(step) + ": ";
    EXPECT_EQ(point.warnings[i].rfind(begin, 0), 0u) << point.warnings[i];
    EXPECT_NE(point.warnings[i].find(reason, begin.size()), std::string::npos) << point.warnings[i];
  };
  expect(0, 30, "a symbolic link");
  expect(1, 26, "its name does not match its manifest of step 25");
  expect(2, 20, "manifest.json");
  expect(3, 15, "not committed");
  expect(4, 10, "model-00002-of-00002.safetensors");
}

TEST_F(ResumeTest, WhatWasNeverCommittedBlocksNoRun) {
  leave(5);
  uncommit(5);
  write_file(path(7) + "/config.json", "{}");
  const ResumePoint point = found();
  expect_begins(point);
  EXPECT_EQ(point.warnings.size(), 2u);
}

TEST_F(ResumeTest, WhereAllThatWasCommittedIsDamagedNothingIsThrownAway) {
  leave(5);
  damage(5);
  leave(7);
  damage(7);
  leave(9);
  uncommit(9);
  const Error error = refusal();
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(error.where(), path(7));
  EXPECT_NE(error.remedy().find("checkpoint.resume = \"none\""), std::string::npos);
  config_.checkpoint.resume = {ResumeFrom::kNone};
  expect_begins(found());
}

TEST_F(ResumeTest, AStepIsThatOfTheFolderAndIsNotReplacedByAnother) {
  leave(5);
  leave(10);
  leave(15);
  damage(15);
  config_.checkpoint.resume = {ResumeFrom::kStep, 5};
  EXPECT_EQ(found().checkpoint.value().path(), path(5));
  config_.checkpoint.resume = {ResumeFrom::kStep, 7};
  Error error = refusal();
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(error.fact(), "there is no checkpoint of step 7");
  EXPECT_EQ(error.remedy(), "there are checkpoints of steps 5, 10, 15");
  config_.checkpoint.resume = {ResumeFrom::kStep, 15};
  error = refusal();
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_NE(error.where().find(path(15)), std::string::npos) << error.what();
  config_.checkpoint.folder = folder_ / "empty";
  EXPECT_NE(refusal().remedy().find("the folder has no checkpoint"), std::string::npos);
}

TEST_F(ResumeTest, APathIsThatCheckpointWhateverItsName) {
  leave(5);
  fs::rename(path(5), folder_ / "mine");
  config_.checkpoint.resume = {.kind = ResumeFrom::kPath, .path = folder_ / "mine"};
  const ResumePoint point = found();
  EXPECT_EQ(point.checkpoint.value().path(), folder_ / "mine");
  EXPECT_EQ(point.done.steps, 5);
  config_.checkpoint.resume = {.kind = ResumeFrom::kPath, .path = folder_ / "yours"};
  EXPECT_EQ(refusal().kind(), ErrorKind::kCheckpoint);
}

TEST_F(ResumeTest, OtherDataIsRefusedWithWhatDiffersUnlessAllowed) {
  leave(5, [](Manifest& manifest) { manifest.fingerprints["data"].bytes = 2999; });
  Error error = refusal();
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(error.fact(),
            "the checkpoint belongs to other data: the files had 2,999 bytes, now 3,000 bytes");
  EXPECT_EQ(error.where(), path(5));
  EXPECT_NE(error.remedy().find("checkpoint.allow = [\"data\"]"), std::string::npos);
  leave(5, [](Manifest& manifest) { manifest.fingerprints["data"].hash = content_hash("x"); });
  EXPECT_EQ(
      refusal().fact(),
      "the checkpoint belongs to other data: the files have the same size, 3,000 bytes, and other "
      "content");
  leave(5, [](Manifest& manifest) {
    manifest.fingerprints["data"].hash = content_hash("x");
    manifest.settings["training.seq_len"] = "32";
  });
  EXPECT_EQ(refusal().fact(), "the checkpoint belongs to other data: training.seq_len: 32 -> 16");
  leave(5, [](Manifest& manifest) { manifest.fingerprints.erase("data"); });
  EXPECT_EQ(refusal().fact(), "the checkpoint belongs to other data: its manifest records no data");
  config_.checkpoint.allow = {"model"};
  refusal();
  config_.checkpoint.allow = {"data"};
  const ResumePoint point = found();
  EXPECT_EQ(point.done.steps, 5);
  ASSERT_EQ(point.warnings.size(), 1u);
  EXPECT_NE(point.warnings[0].find("the run still resumes from it"), std::string::npos);
}

TEST_F(ResumeTest, AnotherModelIsRefusedWithTheKeyThatDiffersUnlessAllowed) {
  const auto other = [](Manifest& manifest) {
    manifest.fingerprints["model"].hash = content_hash("x");
  };
  leave(5, other);
  EXPECT_EQ(refusal().fact(),
            "the checkpoint belongs to another model: the weights that the run started from have "
            "the same "
            "size, 2,000 bytes, and other content");
  made_of_.model_config = R"({"hidden_size":64,"model_type":"none"})";
  const Error error = refusal();
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(error.fact(),
            "the checkpoint belongs to another model: its 'hidden_size' is not given, not 64");
  EXPECT_NE(error.remedy().find("checkpoint.allow = [\"model\"]"), std::string::npos);
  config_.checkpoint.allow = {"data", "model"};
  EXPECT_EQ(found().warnings.size(), 1u);
  config_.checkpoint.allow = {};
  made_of_.model_config = R"({"model_type":"none"})";
  leave(5, [](Manifest& manifest) { manifest.fingerprints["model"] = {0, content_hash("x")}; });
  EXPECT_EQ(refusal().fact(),
            "the checkpoint belongs to another model: its run started from random weights");
}

TEST_F(ResumeTest, TheCheckIsMadeAlsoWhereNothingIsLeftToDo) {
  leave(100, [](Manifest& manifest) { manifest.fingerprints["data"].bytes = 1; });
  refusal();
  leave(100);
  EXPECT_TRUE(is_finished(config_, found()));
  config_.training.steps = 101;
  EXPECT_FALSE(is_finished(config_, found()));
  config_.training.steps = 50;
  EXPECT_TRUE(is_finished(config_, found()));
}

TEST_F(ResumeTest, ChangedSettingsAreOneWarningFromOldToNew) {
  leave(5, [](Manifest& manifest) {
    manifest.settings["optimizer.lr"] = "0.5";
    manifest.settings["gone.key"] = "1";
    // as in a version without this key, when the value was 512
    manifest.settings.erase("training.seq_len");
  });
  const ResumePoint point = found();
  ASSERT_EQ(point.warnings.size(), 1u);
  EXPECT_EQ(point.warnings[0], "settings differ from those of " + path(5) +
                                   ": optimizer.lr: 0.5 -> 0.001, training.seq_len: 512 -> 16");
  leave(5, [](Manifest& manifest) { manifest.settings.clear(); });
  EXPECT_TRUE(found().warnings.empty()) << "not of a run of the command";
}

TEST_F(ResumeTest, MoreStepsUnderADecayAreAWarning) {
  const auto leave_planned = [&](const std::string& steps) {
    leave(5, [&](Manifest& manifest) { manifest.settings["training.steps"] = steps; });
  };
  config_.training.steps = 12;
  config_.optimizer.lr = 0.01;
  config_.lr_scheduler.warmup_steps = 2;
  for (const Decay decay : {Decay::kLinear, Decay::kCosine}) {
    config_.lr_scheduler.decay = decay;
    const auto rate = [&](std::int64_t step, std::int64_t of_steps) {
      return shortest(learning_rate(step, of_steps, 0.01, config_.lr_scheduler));
    };
    leave_planned("6");
    EXPECT_EQ(found().warnings,
              std::vector<std::string>{formatted(
                  "lr_scheduler.decay was planned to end at step 6, and training.steps = 12 "
                  "stretches it: the learning rate goes from {} at step 5 to {} at step 6",
                  rate(5, 6), rate(6, 12))});
    leave_planned("12");
    EXPECT_EQ(found().warnings, std::vector<std::string>());
  }
  config_.lr_scheduler.decay = Decay::kConstant;
  leave_planned("6");
  EXPECT_EQ(found().warnings, std::vector<std::string>());
}

TEST_F(ResumeTest, APositionThatWouldOverflowIsDamage) {
  leave(5, [](Manifest& manifest) { manifest.sequence = (std::int64_t{1} << 62) + 1; });
  EXPECT_EQ(refusal().kind(), ErrorKind::kCheckpoint);
}

TEST_F(ResumeTest, MarkerModeRejectsRewritingCommittedSteps) {
  leave(5);
  leave(10);
  leave(200);  // beyond the last step
  config_.checkpoint.resume = {ResumeFrom::kStep, 5};
  const ResumePoint point = found();
  EXPECT_NO_THROW(require_free_steps(config_, point));
  config_.checkpoint.commit = Commit::kMarker;
  const Error error = error_of([&] { require_free_steps(config_, point); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.where(), path(10));
  EXPECT_NO_THROW(require_free_steps(config_, [&] {
    config_.checkpoint.resume = {ResumeFrom::kStep, 10};
    return found();
  }()));
  damage(10);  // the save removes damaged checkpoints
  EXPECT_NO_THROW(require_free_steps(config_, point));
}

TEST_F(ResumeTest, RanksWhoseProcessesFoundDifferentCheckpointsAreToldSo) {
  leave(5);
  const ResumePoint five = found();
  const ResumePoint none = new_run();
  const auto meet = [&](const ResumePoint& of_rank_1) {
    run_ranks(make_local_transports(2), 1, nullptr, [&](Transport& transport) {
      require_same_resume_point(transport.rank() == 1 ? of_rank_1 : five, transport.world());
    });
  };
  EXPECT_NO_THROW(meet(five));
  const Error error = error_of([&] { meet(none); });
  EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(std::string(error.what())
                .rfind("rank 0 resumes from the checkpoint of step 5 of run 0123456789abcdef, "
                       "sequence 40, rank 1 from step 1, sequence 0; checkpoint.folder",
                       0),
            0u)
      << error.what();
}

}  // namespace
}  // namespace sluice::test
