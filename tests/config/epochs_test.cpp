#include "config/epochs.h"

#include <gtest/gtest.h>

#include "config/data_inputs.h"
#include "plan/learning_rate.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

const std::string kLlama =
    std::string(SLUICE_TEST_DATA) + "/reference/models/llama_untied/config.json";

class EpochsOfConfigTest : public testing::Test {
 protected:
  EpochsOfConfigTest() {
    std::string text;
    for (int i = 1; i <= 37; ++i) text += "{\"input_ids\": [" + std::to_string(i) + ", 1]}\n";
    test::write_file(folder_ / "rows.jsonl", text);
  }

  RunConfig load(const Overrides& overrides, const std::string& text = "") {
    test::write_file(folder_ / "run.toml", "[model]\nconfig = \"" + kLlama +
                                               "\"\n[data]\nfiles = [\"rows.jsonl\"]\n" + text);
    return load_run_config(folder_ / "run.toml", overrides, {});
  }

  // Returns the configuration after set_steps(), and its text.
  std::pair<RunConfig, std::string> run(const Overrides& overrides, const StepsDone& done = {}) {
    RunConfig config = load(overrides);
    const TokenData data =
        open_data(config, training_data_options(config, model_of_config(config)));
    set_steps(config, data, done);
    return {config, steps_text(config, data, done)};
  }

  std::string refusal(const Overrides& overrides, const std::string& text = "") {
    const Error error = test::error_of([&] { load(overrides, text); });
    EXPECT_EQ(error.exit_code(), 2);
    std::string message = error.what();
    const std::string file = folder_ / "run.toml";
    for (std::size_t at; (at = message.find(file)) != std::string::npos;)
      message.replace(at, file.size(), "F");
    return message;
  }

  std::vector<std::int64_t> due(const std::string& interval, std::int64_t last) {
    std::vector<std::int64_t> steps;
    const RunConfig config = run({{"checkpoint.interval", interval}}).first;
    for (std::int64_t step = 1; step <= last; ++step)
      if (config.checkpoint.interval.is_due(step)) steps.push_back(step);
    return steps;
  }

  test::TempDirectory folder_;
};

TEST_F(EpochsOfConfigTest, SetsAndNamesTheStepsOfTheRun) {
  const auto [config, text] = run({{"training.epochs", "2"}});
  EXPECT_EQ(config.training.steps, 10);
  EXPECT_EQ(config.origins.at("training.steps"), "training.epochs = 2");
  EXPECT_EQ(text, "10 steps = 2 epochs of 37 rows");
  EXPECT_EQ(run({{"training.epochs", "0.5"}}).second, "3 steps = 0.514 epochs of 37 rows");
  EXPECT_EQ(run({{"training.steps", "60"}}).second, "60 steps = 13 epochs of 37 rows");
  EXPECT_EQ(run({{"training.steps", "1"}}).second, "1 step = 0.216 epochs of 37 rows");
  const Overrides replicas = {{"training.epochs", "2"}, {"parallelism.data_parallel_degree", "4"}};
  EXPECT_EQ(run(replicas).second, "3 steps = 2 epochs of 37 rows");
  EXPECT_EQ(run(replicas, {5, {40}}).first.training.steps, 7) << "two steps for the 34 rows left";
}

TEST_F(EpochsOfConfigTest, ALaterSourceReplacesTheOtherKey) {
  EXPECT_EQ(load({{"training.steps", "5"}}, "[training]\nepochs = 2\n").training.epochs, 0);
  const RunConfig epochs = load({{"training.epochs", "2"}}, "[training]\nsteps = 5\n");
  EXPECT_EQ(epochs.training.epochs, 2);
  EXPECT_EQ(load({{"lr_scheduler.warmup_ratio", "0.1"}}, "[lr_scheduler]\nwarmup_steps = 5\n")
                .lr_scheduler.warmup_steps,
            0);
}

TEST_F(EpochsOfConfigTest, RefusesKeysThatContradictEachOther) {
  EXPECT_EQ(refusal({}, "[training]\nsteps = 5\nepochs = 2\n"),
            "training.steps and training.epochs exclude each other; F:7:1; keep one of them");
  EXPECT_EQ(refusal({}, "weights = [1]\n[training]\nepochs = 2\n"),
            "training.epochs and data.weights exclude each other; F:5:1; set training.steps: with "
            "weights, each entry has epochs of its own");
  EXPECT_EQ(refusal({}, "[lr_scheduler]\nwarmup_steps = 5\nwarmup_ratio = 0.1\n"),
            "lr_scheduler.warmup_steps and lr_scheduler.warmup_ratio exclude each other; F:7:1; "
            "keep one of them");
  EXPECT_EQ(refusal({}, "[validation]\nfiles = [\"rows.jsonl\"]\nsplit = 0.1\n"),
            "validation.files and validation.split exclude each other; F:7:1; keep one of them");
  EXPECT_EQ(refusal({}, "[validation]\nsplit = 1.5\n"),
            "validation.split = 1.5 is neither a share nor a number of rows; F:6:1; write a share "
            "below 1, such as 0.05, or a whole number of rows");
}

TEST_F(EpochsOfConfigTest, AnIntervalIsStepsOrEpochs) {
  EXPECT_EQ(due("4", 9), (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(due("0", 9), std::vector<std::int64_t>());
  // A step has 8 of 37 rows, so epochs end after 4.6, 9.3, 13.9 and 18.5 steps.
  EXPECT_EQ(due("1 epoch", 19), (std::vector<std::int64_t>{5, 10, 14, 19}));
  EXPECT_EQ(due("0.5 epochs", 10), (std::vector<std::int64_t>{3, 5, 7, 10}));
  EXPECT_EQ(due("0.001 epochs", 3), (std::vector<std::int64_t>{1, 2, 3}));
  // In doubles, 1.1 epochs of 10 rows are more than 11 rows.
  Interval interval;
  interval.epochs = 1.1;
  interval.rows = interval.epochs * 10, interval.rows_per_step = 1;
  EXPECT_TRUE(interval.is_due(11));
  EXPECT_FALSE(interval.is_due(12));
  // After 2 steps of 8 rows, a resumed run takes steps of 4: row 22 is read by step 4.
  Interval resumed;
  resumed.epochs = 1, resumed.rows = 22, resumed.rows_per_step = 4;
  resumed.done = {.steps = 2, .position = {16}};
  EXPECT_FALSE(resumed.is_due(3));
  EXPECT_TRUE(resumed.is_due(4));
  const std::string shown = show_config(load({{"validation.interval", "2 epochs"},
                                              {"validation.split", "5"},
                                              {"checkpoint.interval", "1 epochs"}}));
  EXPECT_NE(shown.find("validation.interval = \"2 epochs\" "), std::string::npos) << shown;
  EXPECT_NE(shown.find("checkpoint.interval = \"1 epoch\" "), std::string::npos);
  for (const char* wrong : {"1 epok", "-1 epochs", "0 epochs", "epoch", "100 steps", "1epoch"}) {
    EXPECT_EQ(refusal({{"checkpoint.interval", wrong}}),
              "checkpoint.interval: '" + std::string(wrong) +
                  "' is neither steps nor epochs; --checkpoint.interval; write "
                  "checkpoint.interval = 100 for steps, or checkpoint.interval = \"0.5 epochs\"");
  }
}

TEST_F(EpochsOfConfigTest, ValidationReadsTheRowsThatTrainingDoesNot) {
  const RunConfig config = load({{"validation.split", "5"}, {"validation.interval", "1 epoch"}});
  const ModelSpec model = model_of_config(config);
  EXPECT_EQ(open_data(config, training_data_options(config, model)).num_sequences(), 32);
  EXPECT_EQ(open_data(config, validation_data_options(config, model)).num_sequences(), 5);
  EXPECT_EQ(open_data(config, evaluation_data_options(config, model)).num_sequences(), 37);
  const RunConfig all = load({{"validation.split", "37"}});
  EXPECT_EQ(test::message_of([&] { open_data(all, training_data_options(all, model)); }),
            "validation.split = 37 holds out 37 of 37 rows; --validation.split; hold out at least "
            "one row, and leave at least one to train on");
}

TEST_F(EpochsOfConfigTest, TheWarmUpMayBeAShareOfTheSteps) {
  const LearningRateOptions options = load({{"lr_scheduler.warmup_ratio", "0.03"}}).lr_scheduler;
  EXPECT_EQ(warmup_steps_of(100, options), 3);
  EXPECT_EQ(warmup_steps_of(101, options), 4) << "rounded up";
  EXPECT_TRUE(depends_on_steps(options));
  EXPECT_FALSE(depends_on_steps({}));
}

}  // namespace
}  // namespace sluice
