#include <gtest/gtest.h>
#include <signal.h>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

using Json = nlohmann::json;

class TrainReportTest : public TrainCommandTest {
 protected:
  Json story() const { return Json::parse(test::read_file(out() + "/run.json")); }
  std::string page() const { return test::read_file(out() + "/report.html"); }
  void expect_in_page(const std::vector<std::string>& parts) const {
    const std::string text = page();
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part;
  }
};

void expect_same_actions(const Json& expected, const Json& ran) {
  ASSERT_EQ(ran.at("ranks").size(), expected.at("ranks").size());
  for (std::size_t rank = 0; rank < expected.at("ranks").size(); ++rank) {
    const Json &planned = expected["ranks"][rank]["actions"], &done = ran["ranks"][rank]["actions"];
    ASSERT_EQ(done.size(), planned.size());
    double last = 0;
    for (std::size_t i = 0; i < planned.size(); ++i) {
      EXPECT_EQ(done[i][0], planned[i][0]);
      EXPECT_GE(done[i][1].get<double>(), last);
      EXPECT_GT(done[i][2].get<double>(), done[i][1].get<double>());
      last = done[i][2].get<double>();
    }
    EXPECT_LE(last, ran.at("makespan").get<double>());
  }
}

TEST_F(TrainReportTest, IsThereAtTheEnd) {
  const ProgramResult result = train({"--metrics.enable_tensorboard=true"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("report: " + out() + "/report.html\n"), std::string::npos);
  EXPECT_NE(result.out.find("tensorboard: " + out() + "/events.out.tfevents.0.sluice\n"),
            std::string::npos);
  EXPECT_TRUE(fs::exists(out() + "/events.out.tfevents.0.sluice"));
  const Json run = story();
  EXPECT_EQ(run["end"]["ending"], "finished");
  EXPECT_EQ(run["end"]["step"], 3);
  EXPECT_EQ(run["saves"], Json::parse("[3]"));
  EXPECT_EQ(run["starts"].size(), 1u);
  EXPECT_EQ(run["starts"][0]["first_step"], 1);
  EXPECT_EQ(run["settings"]["training.steps"]["value"], 3);
  EXPECT_EQ(run["plan"]["schedule"]["num_ranks"], 2);
  EXPECT_EQ(run["end"]["last_step"]["step"], 3);
  expect_same_actions(run["expected"], run["end"]["last_step"]["picture"]);
  expect_in_page(
      {"finished after step 3", "Step 3 as it ran", "Means of 2 logged steps", "training.seq_len"});
  const std::string written = page();
  const ProgramResult again = run_sluice({"report", out(), "--out", folder_ / "again.html"});
  EXPECT_EQ(again.out, "3 logged steps in " + (folder_ / "again.html") + "\n") << again.err;
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(test::read_file(folder_ / "again.html"), written);
}

TEST_F(TrainReportTest, PairsAndReplicasAreInThePicture) {
  ASSERT_EQ(train({"--parallelism.pipeline_parallel_schedule=DualPipeV",
                   "--training.local_batch_size=12", "--parallelism.data_parallel_degree=2"})
                .exit_code,
            0);
  const Json run = story();
  const Json& ran = run["end"]["last_step"]["picture"];
  EXPECT_FALSE(ran["ranks"][0]["pairs"].empty());
  EXPECT_EQ(ran["ranks"][0]["pairs"], run["expected"]["ranks"][0]["pairs"]);
  expect_same_actions(run["expected"], ran);
  EXPECT_EQ(run["row_of_rank"].size(), 4u);
}

TEST_F(TrainReportTest, IsLeftOutWhenNotWanted) {
  const ProgramResult result = train({"--metrics.report=false"});
  EXPECT_EQ(result.out.find("report:"), std::string::npos);
  EXPECT_FALSE(fs::exists(out() + "/report.html"));
  EXPECT_TRUE(fs::exists(out() + "/run.json"));
}

TEST_F(TrainReportTest, OfARunThatWasStartedAgainHasAllOfIt) {
  ASSERT_EQ(train({"--checkpoint.interval=2"}).exit_code, 0);
  ASSERT_EQ(train({"--training.steps=5"}).exit_code, 0);
  const Json run = story();
  ASSERT_EQ(run["starts"].size(), 2u);
  EXPECT_EQ(run["starts"][1]["first_step"], 4);
  EXPECT_EQ(run["saves"], Json::parse("[2, 3, 5]"));
  expect_in_page({"started again with step 4", "step 1: ", "step 5: "});
  fs::remove_all(out() + "/checkpoint");
  ASSERT_EQ(train().exit_code, 0);
  EXPECT_EQ(story()["starts"].size(), 1u);
  EXPECT_NE(story()["run"], run["run"]);
}

TEST_F(TrainReportTest, TellsOfASignal) {
  stopped_by({SIGINT});
  EXPECT_EQ(story()["end"]["ending"], "stopped");
  expect_in_page({"stopped by a signal after step"});
}

TEST_F(TrainReportTest, TellsOfAnError) {
  const ProgramResult result = train({"--optimizer.lr=1e30", "--training.steps=50"});
  ASSERT_NE(result.exit_code, 0);
  const Json run = story();
  EXPECT_EQ(run["end"]["ending"], "failed");
  const auto error = run["end"]["error"].get<std::string>();
  EXPECT_NE(result.err.find(error), std::string::npos) << error;
  EXPECT_GE(run["end"]["last_step"]["step"], 2);
  expect_in_page({"ended by an error", "as it was running"});
}

TEST_F(TrainReportTest, OfARunThatWasKilledIsMadeByTheCommand) {
  ended_after("--training.steps=1000000 --checkpoint.interval=1", "",
              [](pid_t child) { kill(child, SIGKILL); });
  EXPECT_TRUE(story()["end"].is_null());
  const ProgramResult result = run_sluice({"report", out()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_in_page({"not ended, after step ", "A step as it was expected"});
}

TEST_F(TrainReportTest, OfProcessesHasTheLastStepOfAllRanks) {
  const ProgramResult result = run_shell(quoted_for_shell(SLUICE_PROGRAM) +
                                         " launch -n 2 -- train " + quoted_for_shell(config()));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json run = story();
  EXPECT_EQ(run["starts"][0]["processes"], 2);
  expect_same_actions(run["expected"], run["end"]["last_step"]["picture"]);
}

TEST_F(TrainReportTest, AFileThatCannotBeWrittenCostsAWarningOnly) {
  fs::create_directories(out() + "/run.json");
  const ProgramResult result = train();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.err.find("cannot write the record of the run"), std::string::npos) << result.err;
  EXPECT_EQ(metrics().size(), 3u);
}

TEST_F(TrainReportTest, ThePageReplacesNoFileOfTheRunAndNamesLinesThatAreNoSteps) {
  ASSERT_EQ(train().exit_code, 0);
  const std::string lines = out() + "/metrics.jsonl";
  const std::string written = test::read_file(lines),
                    story_before = test::read_file(out() + "/run.json");
  for (const std::string& file : {lines, out() + "/run.json", out() + "/../out/metrics.jsonl"}) {
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{}, std::vector<std::string>{"--compare", out()}}) {
      std::vector<std::string> words = {"report", out(), "--out", file};
      words.insert(words.end(), more.begin(), more.end());
      const ProgramResult result = run_sluice(words);
      EXPECT_EQ(result.exit_code, 2);
      EXPECT_NE(result.err.find("would replace a file of the run"), std::string::npos)
          << result.err;
    }
  }
  EXPECT_EQ(test::read_file(lines), written);
  EXPECT_EQ(test::read_file(out() + "/run.json"), story_before);
  EXPECT_EQ(run_sluice({"report", out()}).err, "");
  test::write_file(lines, "no step\n" + written + "{\"step\": 4, \"lo");
  const ProgramResult result = run_sluice({"report", out()});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "3 logged steps in " + out() + "/report.html\n");
  EXPECT_EQ(result.err,
            "sluice: warning: skipped 2 lines that no step of the run wrote; " + lines + "\n");
}

TEST_F(TrainReportTest, AFolderOfNoRunIsRefused) {
  const ProgramResult result = run_sluice({"report", folder_ / "nowhere"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("there is no record of a run; " + (folder_ / "nowhere/run.json") +
                            "; name the metrics.folder of a run that made a step"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(run_sluice({"report"}).exit_code, 2);
}

TEST_F(TrainReportTest, ALinkInTheFolderOfARunIsReplaced) {
  ASSERT_EQ(train().exit_code, 0);
  const std::string precious = folder_ / "precious";
  test::write_file(precious, "precious");
  for (const auto& [file, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"report.html", {"report", out()}},
           {"events.out.tfevents.0.sluice", {"metrics", "tensorboard", out()}},
           {"events.out.tfevents.0.sluice",
            {"metrics", "tensorboard", out(), "--out", folder_ / "board"}}}) {
    const std::string folder = words.size() > 3 ? folder_ / "board" : out();
    fs::create_directories(folder);
    fs::remove(folder + "/" + file);
    fs::create_symlink(precious, folder + "/" + file);
    const ProgramResult result = run_sluice(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_FALSE(fs::is_symlink(folder + "/" + file)) << file;
    EXPECT_GT(fs::file_size(folder + "/" + file), 100u);
  }
  fs::create_symlink(precious, out() + "/page.html");
  EXPECT_EQ(run_sluice({"report", out(), "--out", out() + "/page.html"}).exit_code, 2);
  const ProgramResult profiled = train({"--training.steps=4", "--profile", out() + "/page.html"});
  EXPECT_EQ(profiled.exit_code, 2) << profiled.err;
  EXPECT_EQ(test::read_file(precious), "precious");
}

}  // namespace
}  // namespace sluice::testing
