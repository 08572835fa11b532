// tests/oracle/check_sample.py compares the tokens of `sluice sample` with those of transformers.
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
    more.insert(more.begin(), {model, "--prompt", "the quick", "--json", "--tokens", "6",
                               "--data.tokenizer", "bytes"});
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

// The rotary factors of this model change beyond 10 tokens, which a padded length would reach too
// early.
TEST_F(SampleCommandTest, TokensAreTheSameForEveryNumberOfSlices) {
  test::write_file(folder_ / "phi3.json", R"({"model_type": "phi3", "vocab_size": 256,
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "max_position_embeddings": 64, "initializer_range": 0.3,
    "original_max_position_embeddings": 10, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 255, "partial_rotary_factor": 1.0, "rope_theta": 1000.0,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3],
                     "long_factor": [2.0, 2.5, 3.0, 9.5]}})");
  ASSERT_EQ(train({"--model.path=", "--model.config", folder_ / "phi3.json", "--training.steps=1",
                   "--training.seq_len=8"})
                .exit_code,
            0);
  const nlohmann::json whole = continuation(out());
  EXPECT_EQ(whole.at("tokens").size(), 6u);
  for (const char* slices : {"2", "4"}) {
    EXPECT_EQ(continuation(out(), {"--parallelism.tensor_parallel_slices", slices}), whole);
    EXPECT_EQ(continuation(out(), {"--parallelism.tensor_parallel_slices", slices,
                                   "--parallelism.tensor_parallel_degree", "2"}),
              whole);
  }
}

// The 9 prompt tokens and 6 new tokens use all positions of the model.
TEST_F(SampleCommandTest, SlicesTakeNoPositionsBeyondTheTokens) {
  test::write_file(folder_ / "gpt2.json",
                   R"({"model_type": "gpt2", "vocab_size": 256, "n_embd": 16, "n_layer": 2,
    "n_head": 4, "n_positions": 15})");
  const std::vector<std::string> sliced = {"--parallelism.tensor_parallel_slices", "4"};
  std::vector<std::string> options = {"--model.path=",
                                      "--model.config",
                                      folder_ / "gpt2.json",
                                      "--training.steps=1",
                                      "--training.seq_len=8",
                                      "--validation.interval=1",
                                      "--validation.prompt_tokens=6",
                                      R"(--validation.prompts=["the quick"])"};
  options.insert(options.end(), sliced.begin(), sliced.end());
  const ProgramResult result = train(options);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json whole = continuation(out());
  EXPECT_EQ(whole.at("tokens").size(), 6u);
  EXPECT_EQ(continuation(out(), sliced), whole);
  EXPECT_EQ(metrics().back().at("continuations").at(0).at("text"), whole.at("text"));
}

// Dividing logits by these temperatures gives infinity or NaN.
TEST_F(SampleCommandTest, TheSmallestTemperaturesDrawTheLikeliestToken) {
  const nlohmann::json greedy = continuation(kModel);
  for (const char* temperature : {"1e-300", "1e-308", "1e-320", "5e-324"})
    EXPECT_EQ(continuation(kModel, {"--temperature", temperature}), greedy) << temperature;
}

TEST_F(SampleCommandTest, SeedsDrawOtherTokens) {
  const nlohmann::json first = continuation(kModel, {"--temperature", "2", "--seed", "1"});
  EXPECT_EQ(continuation(kModel, {"--temperature", "2", "--seed", "1"}), first);
  EXPECT_NE(continuation(kModel, {"--temperature", "2", "--seed", "2"}), first);
  EXPECT_NE(continuation(kModel), first);
}

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

TEST_F(SampleCommandTest, ACheckpointOfARunOnBytesNeedsNoTokenizerAndGivesNoWarning) {
  ASSERT_EQ(train({"--training.steps=1"}).exit_code, 0);
  const ProgramResult result = sample({out(), "--prompt", "the quick", "--tokens", "2"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const ProgramResult of_a_model = sample({kModel, "--prompt", "the quick", "--tokens", "2"});
  EXPECT_NE(of_a_model.err.find("every byte of text is a token"), std::string::npos)
      << of_a_model.err;
}

TEST_F(SampleCommandTest, ARunGoesOnWithItsPrompts) {
  const std::vector<std::string> steps = {"--training.steps=4", "--checkpoint.interval=2"};
  ASSERT_EQ(train(steps).exit_code, 0);
  const std::string alone = hashes_of_step("step-00000004");

  std::vector<std::string> prompted = steps;
  prompted.insert(prompted.end(),
                  {"--validation.interval=2", "--validation.prompt_tokens=6",
                   R"(--validation.prompts=["the quick", "a\tlonger one than a row has"])"});
  for (const char* layout : {"1F1B", "ZBVZeroBubble"}) {
    prompted.push_back(std::string("--parallelism.pipeline_parallel_schedule=") + layout);
    const ProgramResult result = train_anew(prompted);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(hashes_of_step("step-00000004"), alone);
    const std::vector<nlohmann::json> lines = metrics();
    ASSERT_EQ(lines.size(), 4u);
    for (const int step : {2, 4}) {
      const std::string model = out() + "/checkpoint/step-0000000" + std::to_string(step);
      const nlohmann::json& found = lines.at(step - 1).at("continuations");
      ASSERT_EQ(found.size(), 2u);
      EXPECT_EQ(found.at(0).at("prompt"), "the quick");
      EXPECT_EQ(found.at(0).at("text"), continuation(model).at("text"));
      EXPECT_EQ(found.at(1).at("prompt"), "a\tlonger one than a row has");
      EXPECT_NE(result.out.find(R"(  "a\tlonger one than a row has" + ")"), std::string::npos);
      EXPECT_FALSE(lines.at(step - 1).contains("validation_loss"));
    }
    EXPECT_FALSE(lines.at(0).contains("continuations"));
    prompted.pop_back();
  }
}

TEST_F(SampleCommandTest, ARunWhoseRanksShareLayersGoesOnWithItsPrompts) {
  std::vector<std::string> options = {"--training.steps=2",
                                      "--checkpoint.interval=2",
                                      "--validation.interval=2",
                                      "--validation.prompt_tokens=6",
                                      R"(--validation.prompts=["the quick", "odd"])",
                                      "--parallelism.tensor_parallel_slices=2",
                                      "--parallelism.tensor_parallel_degree=2"};
  for (const char* rows : {"true", "false"}) {
    options.push_back(std::string("--parallelism.sequence_parallel=") + rows);
    const ProgramResult result = train_anew(options);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json found = metrics().at(1).at("continuations");
    const std::string model = out() + "/checkpoint/step-00000002";
    EXPECT_EQ(found.at(0).at("text"), continuation(model).at("text"));
    EXPECT_EQ(found.at(1).at("prompt"), "odd");
    options.pop_back();
  }
}

TEST_F(SampleCommandTest, PromptsThatCannotBeGoneOnWithAreRefusedBeforeTheRun) {
  const auto refused = [&](const std::string& option, const std::string& says) {
    const ProgramResult result = train({"--validation.interval=2", option});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(out()));
  };
  refused("--validation.steps=1",
          "neither validation.files nor validation.split nor validation.prompts");
  refused("--validation.prompts=[\"" + std::string(5000, 'x') + "\"]",
          "validation.prompts[0]; give a shorter text");
  refused("--validation.prompts=[\"\"]", "validation.prompts");
}

TEST_F(SampleCommandTest, SaysWhyItCannot) {
  expect_sample_refused({kModel}, 2, "--prompt is required");
  expect_sample_refused({kModel, "--prompt", ""}, 2,
                        "the prompt has no tokens; --prompt; give a text");
  expect_sample_refused(
      {"nowhere", "--prompt", "x"}, 3,
      "no such file or folder; nowhere; name a Hugging Face model folder, a checkpoint");
  expect_sample_refused({kModel, "--prompt", "x", "--tokens", "0"}, 2, "--tokens");
  expect_sample_refused({kModel, "--prompt", "x", "--temperature", "-1"}, 2,
                        "is not a number from 0");
  expect_sample_refused({kModel, "--prompt", "x", "--training.stesp", "1"}, 2,
                        "did you mean 'steps'");
  expect_sample_refused({kModel, "--prompt", std::string(5000, 'x')}, 2,
                        "the model's sequences have at most");
}

}  // namespace
}  // namespace sluice::testing
