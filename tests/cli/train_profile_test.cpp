#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class TrainProfileTest : public TrainCommandTest {
 protected:
  std::string trace() const { return folder_ / "trace.json"; }
  std::vector<nlohmann::json> events() const {
    const auto document = nlohmann::json::parse(test::read_file(trace()), nullptr, false);
    return document.value("traceEvents", std::vector<nlohmann::json>());
  }
  // step -> names in file order
  std::map<int, std::vector<std::string>> actions_of(int rank) const {
    std::map<int, std::vector<std::string>> actions;
    for (const nlohmann::json& event : events()) {
      if (event.at("ph") != "X" || event.at("pid") != rank || event.at("cat") == "waits") continue;
      EXPECT_GE(event.at("ts").get<double>(), 0);
      EXPECT_GE(event.at("dur").get<double>(), 0);
      actions[event.at("args").at("step")].push_back(event.at("name"));
    }
    return actions;
  }
  void expect_no_rest() const {
    for (const std::string& name : test::list_directory(folder_.str()))
      EXPECT_TRUE(name == "trace.json" || name.find("trace") == std::string::npos) << name;
  }
};

TEST_F(TrainProfileTest, WritesTheFirstTenStepsOfEveryRankUnderTheNamesOfTheCsv) {
  ASSERT_EQ(train({"--training.steps=12", "--profile", trace()}).exit_code, 0);
  for (const int rank : {0, 1}) {
    const auto actions = actions_of(rank);
    ASSERT_EQ(actions.size(), 10u) << rank;
    EXPECT_EQ(actions.begin()->first, 1);
    EXPECT_EQ(actions.rbegin()->first, 10);
    for (const auto& [step, names] : actions) EXPECT_EQ(names, actions.at(1));
    for (const std::string name : {"F0", "F1", "B0", "B1"}) {
      const std::string own = std::to_string(rank) + name;
      EXPECT_EQ(std::count(actions.at(1).begin(), actions.at(1).end(), own), 1) << own;
    }
    EXPECT_EQ(actions.at(1).back(), std::to_string(rank) + "UPDATE");
  }
  std::map<std::string, std::set<int>> rows;
  for (const nlohmann::json& event : events()) {
    if (event.at("ph") == "X") rows[event.at("cat")].insert(event.at("tid").get<int>());
  }
  ASSERT_TRUE(rows.contains("compute") && rows.contains("transfers") && rows.contains("waits"));
  EXPECT_NE(rows["compute"], rows["transfers"]);
  EXPECT_NE(rows["compute"], rows["waits"]);
  expect_no_rest();
}

TEST_F(TrainProfileTest, WritesTheStepsThatAreAskedForAsFarAsTheRunGoes) {
  ASSERT_EQ(train({"--profile=" + trace(), "--profile-steps", "2:9"}).exit_code, 0);
  const auto actions = actions_of(0);
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(actions.begin()->first, 2);
}

TEST_F(TrainProfileTest, IsWrittenWhenASignalStopsTheRun) {
  const int status = ended_after("--training.steps=1000000 --profile=" + trace(), "",
                                 [](pid_t child) { kill(child, SIGTERM); });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 75);
  EXPECT_TRUE(actions_of(1).contains(1));
}

TEST_F(TrainProfileTest, IsWrittenWhenALaterStepFails) {
  std::string rows = "{\"input_ids\":[1,2,3],\"x\":\"" + std::string(17 << 20, 'x') + "\"}\n";
  for (int row = 1; row < 8; ++row) rows += "{\"input_ids\":[1,2,3,4]}\n";
  test::write_file(folder_ / "rows.jsonl", rows + "{\"input_ids\":[1,999]}\n");
  const ProgramResult result = train({"--data.files=[\"" + (folder_ / "rows.jsonl") + "\"]",
                                      "--data.shuffle=false", "--profile=" + trace()});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_EQ(actions_of(0).size(), 2u);
  EXPECT_EQ(actions_of(1).size(), 2u);
}

TEST_F(TrainProfileTest, WhatCannotBeIsRefusedBeforeAnythingIsCreated) {
  const std::string profile = "--profile=" + trace();
  for (const std::string steps : {"", "3", "3:", ":3", "0:3", "3:2", "a:b", "1:2:3", "1:2 "})
    expect_refused({profile, "--profile-steps=" + steps}, 2, "--profile-steps");
  expect_refused({profile, "--profile-steps=4:5"}, 2, "training.steps");
  expect_refused({"--profile-steps=1:2"}, 2, "--profile FILE.json");
  expect_refused({"--profile=" + (folder_ / "none/trace.json")}, 2, "make its folder first");
  expect_refused({"--profile=" + folder_.str()}, 2, "the name of a file");
  expect_refused({"--profile="}, 2, "the name of a file");
  expect_refused({profile, "--training.stpes=3"}, 2, "steps");
  test::write_file(folder_ / "notes.txt", "mine");
  expect_refused({"--profile=" + (folder_ / "notes.txt")}, 2, "the file exists and is not a trace");
  EXPECT_EQ(test::read_file(folder_ / "notes.txt"), "mine");
  expect_refused({"--profile=" + out() + "/metrics.jsonl"}, 2, "its metrics there");
  expect_refused({"--profile=" + out() + "/checkpoint/t.json"}, 2, "its checkpoints there");
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused({"--profile=" + pipe}, 2, "not a regular file");
  expect_refused({profile, "--data.files=[\"none.txt\"]"}, 3, "none.txt");
  EXPECT_FALSE(fs::exists(trace()));
  expect_no_rest();
}

}  // namespace
}  // namespace sluice::testing
