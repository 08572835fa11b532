#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class EvalCommandTest : public TrainCommandTest {
 protected:
  ProgramResult eval(std::vector<std::string> options) const {
    options.insert(options.begin(), {"eval", config()});
    return run_sluice(options);
  }

  nlohmann::json evaluated(std::vector<std::string> options) const {
    options.emplace_back("--json");
    const ProgramResult result = eval(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  void expect_eval_refused(const std::vector<std::string>& options, int exit_code,
                           const std::string& says) const {
    const ProgramResult result = eval(options);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err.rfind("sluice: error: ", 0), 0u) << result.err;
    EXPECT_EQ(parts_of(result.err), 3) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  }

  nlohmann::json write_reference_rows() const {
    std::ifstream stream(SLUICE_TEST_DATA "/reference/hf_reference.json");
    const nlohmann::json document = nlohmann::json::parse(stream);
    nlohmann::json found;
    for (const auto& item : document.at("cases")) {
      if (item.at("model") == "llama_untied") found = item;
    }
    std::string rows;
    for (const auto& ids : found.at("input_ids"))
      rows += nlohmann::json{{"input_ids", ids}}.dump() + "\n";
    test::write_file(folder_ / "rows.jsonl", rows);
    return found;
  }

  std::vector<std::string> on_reference_rows(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), "--data.files=[\"" + (folder_ / "rows.jsonl") + "\"]");
    return more;
  }
};

TEST_F(EvalCommandTest, GivesTheLossOfHuggingFaceAndItsPerplexity) {
  const nlohmann::json reference = write_reference_rows();
  const double expected = reference.at("expect").at("loss_float64_forward");
  const nlohmann::json result = evaluated(on_reference_rows());
  EXPECT_NEAR(result.at("loss").get<double>(), expected, 2e-6);
  EXPECT_EQ(result.at("tokens"), 8 * 15);
  EXPECT_EQ(result.at("perplexity").get<double>(), std::exp(result.at("loss").get<double>()));
  EXPECT_EQ(result.size(), 4u);
  EXPECT_FALSE(fs::exists(out())) << "an evaluation creates nothing";
}

TEST_F(EvalCommandTest, WeightsOfAnotherModelOfTheSameShapesAreRefused) {
  ASSERT_EQ(train({"--training.steps=1"}).exit_code, 0);
  const std::string checkpoint = out() + "/checkpoint/step-00000001";
  nlohmann::json config = nlohmann::json::parse(test::read_file(checkpoint + "/config.json"));
  config["rms_norm_eps"] = 0.125;
  test::write_file(checkpoint + "/config.json", config.dump());
  expect_eval_refused({"--checkpoint=" + checkpoint}, 4, "config.json; it is damaged");
  fs::remove(checkpoint + "/manifest.json");  // now a plain directory with weights
  expect_eval_refused({"--checkpoint=" + checkpoint}, 4, "its 'rms_norm_eps' is 0.125");
  expect_eval_refused({"--checkpoint="}, 2, "--checkpoint is empty");
}

TEST_F(EvalCommandTest, ALossThatIsNotFiniteHasItsExitCode) {
  ASSERT_EQ(train({"--training.steps=1"}).exit_code, 0);
  const std::string checkpoint = out() + "/checkpoint/step-00000001";
  for (const std::string& name : test::list_directory(checkpoint)) {
    if (!name.ends_with(".safetensors")) continue;
    std::string bytes = test::read_file(checkpoint + "/" + name);
    std::fill(bytes.end() - 64, bytes.end(), '\xff');  // NaN values
    test::write_file(checkpoint + "/" + name, bytes);
  }
  expect_eval_refused({"--checkpoint=" + checkpoint}, 4, "the saved content has changed");
  fs::remove(checkpoint + "/manifest.json");  // now a plain directory with weights
  expect_eval_refused({"--checkpoint=" + checkpoint}, 6, "not finite");
}

TEST_F(EvalCommandTest, HasTheSameBitsInEveryLayoutAndHoweverRowsFallIntoBatches) {
  write_reference_rows();
  const std::string one =
      evaluated(on_reference_rows({"--parallelism.pipeline_parallel_degree=1"})).dump();
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"--parallelism.pipeline_parallel_degree=2"},
        {"--parallelism.pipeline_parallel_schedule=ZBVZeroBubble"},
        {"--parallelism.pipeline_parallel_degree=4", "--training.local_batch_size=6"},
        {"--training.local_batch_size=6"}}) {
    EXPECT_EQ(evaluated(on_reference_rows(layout)).dump(), one) << layout.front();
  }
}

TEST_F(EvalCommandTest, TakesEveryRowOnceAlsoWhenTheLastBatchIsSmaller) {
  test::write_file(folder_ / "rows.jsonl",
                   "{\"input_ids\":[1,2,3,4]}\n{\"input_ids\":[5,6]}\n"
                   "{\"input_ids\":[7,8,9],\"labels\":[7,-100,9]}\n");
  // The batches have two rows and one row.
  EXPECT_EQ(evaluated(on_reference_rows({"--training.local_batch_size=2"})).at("tokens"),
            3 + 1 + 1);
}

TEST_F(EvalCommandTest, TakesTheWeightsOfACheckpoint) {
  ASSERT_EQ(train({"--training.steps=20"}).exit_code, 0);
  const std::string checkpoint = out() + "/checkpoint/step-00000020";
  const double before = evaluated({}).at("loss");
  const double after = evaluated({"--checkpoint", checkpoint}).at("loss");
  EXPECT_LT(after, before - 0.1);
  EXPECT_EQ(evaluated({"--model.path=" + checkpoint}).at("loss"), after);
  EXPECT_EQ(evaluated({"--model.path=", "--model.config=" + kModel + "/config.json",
                       "--checkpoint=" + checkpoint})
                .at("loss"),
            after);
  expect_eval_refused({"--checkpoint=" + out() + "/checkpoint"}, 4,
                      "did you mean '" + checkpoint + "'?");
}

TEST_F(EvalCommandTest, SaysTheSameForPeople) {
  const ProgramResult result = eval({});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("loss: 5."), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("perplexity: "), std::string::npos) << result.out;
}

TEST_F(EvalCommandTest, WhatIsWrongIsAnErrorOfItsKind) {
  expect_eval_refused({"--checkpoint=" + (folder_ / "none")}, 4,
                      "there is no such checkpoint; " + (folder_ / "none") +
                          "; check the path given to --checkpoint\n");
  expect_eval_refused({"--checkpoint=" + (folder_ / "text.txt")}, 4,
                      "--checkpoint is a file; " + (folder_ / "text.txt") +
                          "; name the directory with the weights, such as step-00000100\n");
  expect_eval_refused({"--model.path=", "--model.config=" + kModel + "/config.json"}, 2,
                      "--checkpoint");
  expect_eval_refused({"--data.files=[\"none.txt\"]"}, 3, "none.txt");
  expect_eval_refused({"--chekpoint=x"}, 2, "did you mean '--checkpoint'?");
  expect_eval_refused({"--training.sed=1"}, 2, "seed");
  test::write_file(folder_ / "rows.jsonl", "{\"input_ids\":[1,2],\"labels\":[1,-100]}\n");
  expect_eval_refused(on_reference_rows(), 3, "counted");
  const std::string other = SLUICE_TEST_DATA "/reference/models/gpt2";
  ASSERT_TRUE(fs::exists(other));
  expect_eval_refused({"--checkpoint=" + other}, 4,
                      R"(of another model: its 'model_type' is "gpt2", not "llama")");
}

TEST_F(EvalCommandTest, ValidationIsTakenAfterTheUpdateOfItsStepsAndChangesNothing) {
  write_reference_rows();
  const std::vector<std::string> options = {
      "--training.steps=6", "--metrics.log_freq=4",
      "--validation.files=[\"" + (folder_ / "rows.jsonl") + "\"]", "--validation.interval=3"};
  ASSERT_EQ(train({"--training.steps=6"}).exit_code, 0);
  const std::vector<nlohmann::json> without = metrics();
  fs::remove_all(out());
  const ProgramResult result = train(options);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("  val_loss: "), std::string::npos) << result.out;
  std::vector<int> validated, logged;
  for (const nlohmann::json& line : metrics()) {
    logged.push_back(line.at("step"));
    EXPECT_EQ(line.at("loss"), without.at(logged.back() - 1).at("loss"));
    EXPECT_EQ(line.at("grad_norm"), without.at(logged.back() - 1).at("grad_norm"));
    if (line.contains("validation_loss")) validated.push_back(logged.back());
  }
  EXPECT_EQ(logged, (std::vector<int>{1, 3, 4, 6}));
  EXPECT_EQ(validated, (std::vector<int>{3, 6}));
  EXPECT_EQ(metrics().back().at("validation_loss"),
            evaluated(on_reference_rows({"--checkpoint", out() + "/checkpoint/step-00000006"}))
                .at("loss"));
}

TEST_F(EvalCommandTest, ValidationTakesSoManyBatches) {
  write_reference_rows();
  const std::string rows = test::read_file(folder_ / "rows.jsonl");
  test::write_file(folder_ / "nine.jsonl", rows + "{\"input_ids\":[1,2,3,4]}\n");
  // Validation takes two batches of four rows each.
  ASSERT_EQ(
      train({"--training.steps=1", "--validation.files=[\"" + (folder_ / "nine.jsonl") + "\"]",
             "--validation.interval=1", "--validation.steps=2"})
          .exit_code,
      0);
  EXPECT_EQ(metrics().back().at("validation_loss"),
            evaluated(on_reference_rows({"--checkpoint", out() + "/checkpoint/step-00000001"}))
                .at("loss"));
}

TEST_F(EvalCommandTest, AValidationThatCannotBeIsRefusedBeforeAnythingIsCreated) {
  expect_refused({"--validation.interval=1"}, 2, "validation.files");
  expect_refused({"--validation.interval=1", "--validation.files=[\"none.jsonl\"]"}, 3,
                 "none.jsonl");
  test::write_file(folder_ / "empty.jsonl", "");
  test::write_file(folder_ / "short.txt", "few");
  const auto held_out = [&](const std::string& name) -> std::vector<std::string> {
    return {"--validation.interval=1", "--validation.files=[\"" + (folder_ / name) + "\"]"};
  };
  expect_refused(held_out("empty.jsonl"), 3, "name files with rows in validation.files\n");
  expect_refused(held_out("short.txt"), 3, "add files to validation.files or lower ");
}

TEST_F(EvalCommandTest, EveryCommandRefusesAModelWhoseTokenizerIsNotRead) {
  const std::string model = folder_ / "model";
  fs::copy(kModel, model);
  const std::vector<std::string> more = {"--model.path=" + model, "--data.tokenizer=auto"};
  const auto run = [&](std::vector<std::string> command, bool with_config = true) {
    if (with_config) command.push_back(config());
    if (!with_config) command.insert(command.end(), {model, "--prompt", "a"});
    command.insert(command.end(), more.begin() + (with_config ? 0 : 1), more.end());
    return run_sluice(command);
  };
  const auto all = [&](const std::string& says) {
    for (const ProgramResult& result :
         {run({"eval"}), run({"train"}), run({"plan"}), run({"config", "check"}),
          run({"plan", "--compare"}), run({"sample"}, false)}) {
      EXPECT_EQ(result.exit_code, 3) << result.err;
      EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
      EXPECT_EQ(parts_of(result.err), 3) << result.err;
    }
    EXPECT_FALSE(fs::exists(out()));
  };
  test::write_file(model + "/merges.txt", "#version: 0.2\n");
  all("'merges.txt'");
  fs::remove(model + "/merges.txt");
  fs::create_symlink("../../blobs/0123abcd", model + "/tokenizer.json");
  all("is a link to '../../blobs/0123abcd'");
  fs::remove(model + "/tokenizer.json");
  for (const ProgramResult& result : {run({"eval"}), run({"sample"}, false), run({"train"})}) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.err.find("every byte of text is a token; set data.tokenizer = \"bytes\""),
              std::string::npos)
        << result.err;
  }
}

TEST_F(EvalCommandTest, AModelOfTheHubIsToldHowToGetHere) {
  const std::string advice = "hf download Qwen/Qwen2.5-0.5B --local-dir models/Qwen2.5-0.5B";
  expect_eval_refused({"--model.path=Qwen/Qwen2.5-0.5B"}, 3, advice);
  const ProgramResult sampled = run_sluice({"sample", "Qwen/Qwen2.5-0.5B", "--prompt", "a"});
  EXPECT_EQ(sampled.exit_code, 3);
  EXPECT_NE(sampled.err.find(advice), std::string::npos) << sampled.err;
}

TEST_F(EvalCommandTest, WeightsThatAreNotThereAreNamed) {
  const std::string model = folder_ / "model", weights = model + "/model.safetensors";
  fs::copy(kModel, model);
  const std::string path = "--model.path=" + model;
  ASSERT_TRUE(fs::exists(weights));
  const std::string bytes = test::read_file(weights);
  fs::remove(weights);
  fs::create_symlink("../../blobs/0123abcd", weights);
  expect_eval_refused({path}, 3, "'model.safetensors' is a link to '../../blobs/0123abcd'");
  fs::remove(weights);
  test::write_file(weights, "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n");
  expect_eval_refused({path}, 3, "a Git LFS pointer: run git lfs pull");
  test::write_file(weights, std::string("\x02\0\0\0\0\0\0\0{}", 10));  // a file without tensors
  test::write_file(model + "/model.safetensors.index.json", "{\"weight_map\": {\"a\": \"b\"}}");
  expect_eval_refused({path}, 3,
                      "'model.safetensors', which is used, and "
                      "'model.safetensors.index.json', which is ignored");
  test::write_file(weights, bytes);
  test::write_file(model + "/config.json",
                   "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n");
  expect_eval_refused({path}, 3, "a Git LFS pointer: run git lfs pull");
}

}  // namespace
}  // namespace sluice::testing
