#include <gtest/gtest.h>

#include "sluice/error.h"
#include "sluice/simulate.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::costs_test {
namespace {

using test::error_of;

std::vector<double> values(const StageCosts& costs) {
  return {costs.forward, costs.backward_input, costs.backward_weight, costs.backward};
}

TEST(ParseCostsTest, ReadsAnyOfThemInAnyOrder) {
  const Costs costs = parse_costs("comm=0.25, B=5,F=2,W=1.5,I=3e0");
  EXPECT_EQ(values(costs.uniform), (std::vector<double>{2, 3, 1.5, 5}));
  EXPECT_EQ(costs.latency, 0.25);
}

TEST(ParseCostsTest, TakesBAsIAndWWhereItIsNotGiven) {
  EXPECT_EQ(values(parse_costs("F=2,I=3,W=4").uniform), (std::vector<double>{2, 3, 4, 7}));
  EXPECT_EQ(values(parse_costs("F=2").uniform), (std::vector<double>{2, 1, 1, 2}));
}

std::vector<double> post_values(const Costs& costs) {
  return {costs.uniform.unshard, costs.uniform.reduce_gradients, costs.reduce_tied,
          costs.reduce_loss,     costs.gather_outputs,           costs.reduce_norm};
}

TEST(ParseCostsTest, PostsCostNothingUnlessTheyAreGiven) {
  EXPECT_EQ(post_values(parse_costs("F=2")), (std::vector<double>{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(post_values(parse_costs("UNSHARD=1,REDUCE_GRAD=2,REDUCE_TIED=3,REDUCE_LOSS=4,"
                                    "GATHER_OUTPUTS=5,REDUCE_NORM=6")),
            (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(parse_costs("UNSHARD=1").uniform), (std::vector<double>{1, 1, 1, 2}));
  EXPECT_EQ(error_of([] { parse_costs("REDUCE_LOSS=1,REDUCE_LOSS=1"); }).kind(), ErrorKind::kUsage);
}

TEST(ParseCostsTest, NormsOfStagesCostNothingUnlessTheyAreGiven) {
  EXPECT_EQ(parse_costs("F=2").uniform.partial_norm, 0);
  EXPECT_EQ(parse_costs("PARTIAL_NORM=3").uniform.partial_norm, 3);
}

TEST(ParseCostsTest, RefusesWhatItCannotRead) {
  for (const char* text : {"F", "F=", "F=x", "F=1x", "F=-1", "F=nan", "F=inf", "F=1e999", "X=1",
                           "f=1", "F=1,F=2", "F=1,,B=2", "="}) {
    EXPECT_EQ(error_of([&] { parse_costs(text); }).kind(), ErrorKind::kUsage) << text;
  }
  EXPECT_NE(std::string(error_of([] { parse_costs("com=1"); }).what()).find("'comm'"),
            std::string::npos);
}

class CostsFileTest : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    const std::string path = folder_ / "costs.json";
    test::write_file(path, text);
    return path;
  }
  Costs read(const std::string& text) { return read_costs(write(text)); }
  Error refusal(const std::string& text) {
    const std::string path = write(text);
    return error_of([&] { read_costs(path); });
  }

  test::TempDirectory folder_;
};

TEST_F(CostsFileTest, HoldsEverythingThatASimulationTakes) {
  const Costs costs = read(R"({"F": 2, "I": 3, "W": 1, "latency": 0.5, "bandwidth": 100,
    "message_bytes": [10, 20], "rank_speed": [1, 0.5],
    "stages": [{"F": 1}, {"I": 5, "W": 6}, {"B": 9}]})");
  EXPECT_EQ(values(costs.uniform), (std::vector<double>{2, 3, 1, 4}));
  ASSERT_EQ(costs.per_stage.size(), 3U);
  EXPECT_EQ(values(costs.per_stage[0]), (std::vector<double>{1, 3, 1, 4}));
  EXPECT_EQ(values(costs.per_stage[1]), (std::vector<double>{2, 5, 6, 11}));
  EXPECT_EQ(values(costs.per_stage[2]), (std::vector<double>{2, 3, 1, 9}));
  EXPECT_EQ(costs.latency, 0.5);
  EXPECT_EQ(costs.bandwidth, 100);
  EXPECT_EQ(costs.message_bytes, (std::vector<double>{10, 20}));
  EXPECT_EQ(costs.rank_speed, (std::vector<double>{1, 0.5}));
}

TEST_F(CostsFileTest, HoldsTheCostsOfPosts) {
  const Costs costs = read(R"({"UNSHARD": 1, "REDUCE_GRAD": 2, "REDUCE_TIED": 3, "REDUCE_LOSS": 4,
    "GATHER_OUTPUTS": 5, "REDUCE_NORM": 6, "stages": [{"UNSHARD": 7}, {"REDUCE_GRAD": 8}]})");
  EXPECT_EQ(post_values(costs), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(costs.per_stage[0].unshard, 7);
  EXPECT_EQ(costs.per_stage[0].reduce_gradients, 2);
  EXPECT_EQ(costs.per_stage[1].unshard, 1);
  EXPECT_EQ(costs.per_stage[1].reduce_gradients, 8);
  EXPECT_EQ(refusal(R"({"REDUCE_NORM": -1})").fact(),
            "'REDUCE_NORM' is not a number of at least 0");
  EXPECT_EQ(refusal(R"({"stages": [{"REDUCE_LOSS": 1}]})").kind(), ErrorKind::kInput);
}

TEST_F(CostsFileTest, HoldsTheCostsOfNormsOfStages) {
  const Costs costs = read(R"({"PARTIAL_NORM": 1, "stages": [{"PARTIAL_NORM": 3}, {}]})");
  EXPECT_EQ(costs.per_stage[0].partial_norm, 3);
  EXPECT_EQ(costs.per_stage[1].partial_norm, 1);
  EXPECT_EQ(refusal(R"({"PARTIAL_NORM": -1})").fact(),
            "'PARTIAL_NORM' is not a number of at least 0");
}

TEST_F(CostsFileTest, MayBeAListOfStages) {
  const Costs costs = read(R"([{"F": 1}, {"F": 2}])");
  ASSERT_EQ(costs.per_stage.size(), 2U);
  EXPECT_EQ(values(costs.per_stage[1]), (std::vector<double>{2, 1, 1, 2}));
}

TEST_F(CostsFileTest, AcceptsCommAsOnTheCommandLine) {
  EXPECT_EQ(read(R"({"comm": 3})").latency, 3);
  EXPECT_EQ(refusal(R"({"comm": 3, "latency": 3})").kind(), ErrorKind::kInput);
}

TEST_F(CostsFileTest, RefusesHostileFiles) {
  const std::vector<std::string> files = {"",
                                          "{",
                                          "nul",
                                          "3",
                                          "\"F\"",
                                          "null",
                                          "[]",
                                          "[[]]",
                                          std::string(100000, '['),
                                          R"({"F": "1"})",
                                          R"({"F": -1})",
                                          R"({"F": 1e999})",
                                          R"({"F": null})",
                                          R"({"G": 1})",
                                          R"({"F": 1, "F": 2})",
                                          R"({"stages": {}})",
                                          R"({"stages": []})",
                                          R"({"stages": [1]})",
                                          R"({"stages": [{"comm": 1}]})",
                                          R"({"message_bytes": 1})",
                                          R"({"rank_speed": [true]})",
                                          "{\"\\u0000\xff\": 1}"};
  for (const std::string& text : files) {
    EXPECT_EQ(refusal(text).kind(), ErrorKind::kInput) << text.substr(0, 60);
  }
}

TEST_F(CostsFileTest, SaysWhichFieldIsWrong) {
  const Error error = refusal(R"({"stages": [{"F": 1}, {"W": "x"}]})");
  EXPECT_EQ(error.fact(), "'stages[1].W' is not a number of at least 0");
  const Error huge = refusal(R"({"stages": [{"F": 1e308}]})");
  EXPECT_EQ(huge.fact(), "'stages[0].F' is 1e+308");
  EXPECT_EQ(huge.remedy(), "write at most 1e30");
  EXPECT_EQ(refusal(R"({"bandwith": 1})").remedy(), "did you mean 'bandwidth'?");
}

TEST_F(CostsFileTest, RefusesAFileThatIsNotThere) {
  EXPECT_EQ(error_of([&] { read_costs(folder_ / "none.json"); }).kind(), ErrorKind::kInput);
}

}  // namespace
}  // namespace sluice::costs_test
