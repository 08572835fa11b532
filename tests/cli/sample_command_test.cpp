// `sluice sample` as a user runs it. tests/oracle/check_sample.py holds its tokens against those of
// transformers.
#include <gtest/gtest.h>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class SampleCommandTest : public TrainCommandTest {
 protected:
  static ProgramResult sample(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "sample");
    return run_sluice(arguments);
  }

  static nlohmann::json continuation(const std::string& model, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {model, "--prompt", "the quick", "--json", "--tokens", "6"});
    const ProgramResult result = sample(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  static void expect_sample_refused(const std::vector<std::string>& arguments, int exit_code,
                                    const std::string& says) {
    const ProgramResult result = sample(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(parts_of(result.err), 3) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  }
};

TEST_F(SampleCommandTest, TokensAreTheSameForEveryLayout) {
  for (const char* temperature : {"0", "1.5"}) {
    const nlohmann::json one = continuation(kModel, {"--temperature", temperature});
    EXPECT_EQ(one.at("prompt"), "the quick");
    EXPECT_EQ(one.at("prompt_tokens").size(), 9u);
    EXPECT_EQ(one.at("tokens").size(), 6u);
    EXPECT_EQ(one.at("ended"), "tokens");
    EXPECT_EQ(continuation(kModel, {"--temperature", temperature,
                                    "--parallelism.pipeline_parallel_degree", "4"}),
              one);
    EXPECT_EQ(continuation(kModel,
                           {"--temperature", temperature, "--parallelism.pipeline_parallel_degree",
                            "2", "--parallelism.pipeline_parallel_schedule", "ZBVZeroBubble"}),
              one);
  }
}

TEST_F(SampleCommandTest, SeedsDrawOtherTokens) {
  const nlohmann::json first = continuation(kModel, {"--temperature", "2", "--seed", "1"});
  EXPECT_EQ(continuation(kModel, {"--temperature", "2", "--seed", "1"}), first);
  EXPECT_NE(continuation(kModel, {"--temperature", "2", "--seed", "2"}), first);
  EXPECT_NE(continuation(kModel), first);
}

// Of a folder of checkpoints, and of a run, the last one counts: what was learned comes back.
TEST_F(SampleCommandTest, ATrainedModelGoesOnWithItsText) {
  ASSERT_EQ(
      train({"--training.steps=60", "--optimizer.lr=1e-2", "--checkpoint.interval=30"}).exit_code,
      0);
  const nlohmann::json last = continuation(out() + "/checkpoint/step-00000060");
  EXPECT_EQ(continuation(out() + "/checkpoint"), last);
  EXPECT_EQ(continuation(out()), last);
  EXPECT_NE(continuation(kModel), last);
  EXPECT_EQ(last.at("text"), " brown");
  EXPECT_EQ(sample({out(), "--prompt", "the quick", "--tokens", "6"}).out, "the quick brown\n");
}

TEST_F(SampleCommandTest, SaysWhyItCannot) {
  expect_sample_refused({kModel}, 2, "--prompt is required");
  expect_sample_refused({kModel, "--prompt", ""}, 2, "the prompt has no tokens");
  expect_sample_refused({"nowhere", "--prompt", "x"}, 3, "no such file or folder; nowhere");
  expect_sample_refused({kModel, "--prompt", "x", "--tokens", "0"}, 2, "--tokens");
  expect_sample_refused({kModel, "--prompt", "x", "--temperature", "-1"}, 2, "no number from 0");
  expect_sample_refused({kModel, "--prompt", "x", "--training.stesp", "1"}, 2,
                        "did you mean 'steps'");
  expect_sample_refused({kModel, "--prompt", std::string(5000, 'x')}, 2,
                        "the model's sequences at most");
}

}  // namespace
}  // namespace sluice::testing
