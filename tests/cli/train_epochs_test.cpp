// Epochs, held-out rows and optimizer settings that fine-tuning configurations name.
#include <gtest/gtest.h>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class TrainEpochsTest : public TrainCommandTest {
 protected:
  TrainEpochsTest() {
    std::string rows;
    for (int i = 1; i <= 37; ++i) {
      rows += "{\"input_ids\": [" + std::to_string(i);
      for (int k = 0; k < 3 + i % 5; ++k) rows += ", " + std::to_string((i * 7 + k * 13) % 250);
      rows += "]}\n";
    }
    test::write_file(folder_ / "rows.jsonl", rows);
    test::write_file(config(), "[model]\npath = \"" + kModel + R"("
[data]
files = ["rows.jsonl"]
tokenizer = "bytes"
[training]
epochs = 2
global_batch_size = 8
seq_len = 16
[parallelism]
pipeline_parallel_degree = 2
data_parallel_shards = 4
[optimizer]
lr = 1e-3
[lr_scheduler]
warmup_ratio = 0.25
decay = "cosine"
[checkpoint]
folder = "out/checkpoint"
[metrics]
folder = "out"
)");
  }

  std::string trained(const Options& options = {}) const {
    const ProgramResult result = train(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  std::string numbers_of(const Options& options) const {
    fs::remove_all(out());
    trained(options);
    return numbers("step-00000010");
  }
  std::set<std::string> checkpoints() const { return test::list_directory(out() + "/checkpoint"); }
  std::int64_t counted_tokens() const {
    std::int64_t tokens = 0;
    for (const nlohmann::json& line : metrics()) tokens += line.at("tokens").get<std::int64_t>();
    return tokens;
  }
};

TEST_F(TrainEpochsTest, TwoEpochsHaveTheSameBitsForEveryNumberOfReplicas) {
  const std::string printed = trained();
  EXPECT_NE(printed.find("\n  10 steps = 2 epochs of 37 rows\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("training.steps = 10 "), std::string::npos);
  EXPECT_EQ(metrics().size(), 10u);
  const std::string alone = numbers("step-00000010");
  std::int64_t labels = 0;  // all tokens but the first of each row
  for (int i = 1; i <= 37; ++i) labels += 3 + i % 5;
  EXPECT_EQ(counted_tokens(), 2 * labels);
  EXPECT_EQ(numbers_of(layout(1, 2)), alone);
  EXPECT_EQ(numbers_of(layout(2, 4)), alone);
  EXPECT_NE(run_sluice({"plan", config()}).out.find("10 steps = 2 epochs of 37 rows"),
            std::string::npos);
}

TEST_F(TrainEpochsTest, AResumeInTheSecondEpochAtAnotherLayoutHasTheSameBits) {
  trained({"--checkpoint.interval=0.5 epochs", "--checkpoint.keep_latest_k=0"});
  EXPECT_EQ(checkpoints(), (std::set<std::string>{"step-00000003", "step-00000005", "step-00000007",
                                                  "step-00000010"}));
  const std::string whole = numbers("step-00000010");
  const std::string printed = trained(both(layout(1, 2), {"--checkpoint.resume=7"}));
  EXPECT_NE(printed.find("step 8 of 10, after 56 sequences"), std::string::npos) << printed;
  EXPECT_EQ(numbers("step-00000010"), whole);
  // A batch of half the size takes two steps for each of the three.
  trained({"--checkpoint.resume=7", "--training.global_batch_size=4",
           "--parallelism.data_parallel_shards=1"});
  EXPECT_EQ(metrics().back().at("step"), 12);
}

TEST_F(TrainEpochsTest, HeldOutRowsAreTheSameInEveryLayoutAndPartOfTheRunsData) {
  const Options split = {"--validation.split=5", "--validation.interval=1 epoch",
                         "--training.epochs=2"};
  const std::string printed = trained(split);
  EXPECT_NE(printed.find("8 steps = 2 epochs of 32 rows"), std::string::npos) << printed;
  std::vector<nlohmann::json> lines = metrics();
  ASSERT_EQ(lines.size(), 8u);
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(lines[i].contains("validation_loss"), i == 3 || i == 7) << i;
  const nlohmann::json loss = lines.back().at("validation_loss");
  const ProgramResult other = train({"--validation.split=6", "--training.epochs=3"});
  EXPECT_EQ(other.exit_code, 4);
  EXPECT_NE(other.err.find("validation.split: 5 -> 6"), std::string::npos) << other.err;
  fs::remove_all(out());
  trained(both(split, layout(1, 2)));
  EXPECT_EQ(metrics().back().at("validation_loss"), loss);
  fs::remove_all(out());
  expect_refused({"--validation.split=40", "--validation.interval=1"}, 2,
                 "validation.split = 40 holds out 40 of 37 rows; --validation.split; ");
}

TEST_F(TrainEpochsTest, MomentumIsSavedResumedAndSharded) {
  const Options momentum = {"--optimizer.name=SGD", "--optimizer.momentum=0.9",
                            "--optimizer.lr=0.01", "--checkpoint.interval=4",
                            "--checkpoint.keep_latest_k=0"};
  trained(momentum);
  const std::string whole = numbers("step-00000010");
  EXPECT_NE(whole.find("momentum_buffer/lm_head.weight"), std::string::npos) << whole;
  trained(
      both(both(momentum, layout(1, 2)), {"--checkpoint.resume=4", "--parallelism.zero1=true"}));
  EXPECT_EQ(numbers("step-00000010"), whole);
  EXPECT_EQ(numbers_of(both(both(momentum, layout(2, 2)), {"--parallelism.zero3=true"})), whole);
  EXPECT_NE(numbers_of({"--optimizer.name=SGD", "--optimizer.lr=0.01"}), whole);
  expect_predicted_peaks(momentum, 0.05);
}

TEST_F(TrainEpochsTest, MomentumStartsAfreshWithAWarningAndIsNotDropped) {
  const Options sgd = {"--optimizer.name=SGD"};
  trained(sgd);
  const ProgramResult more = train(both(sgd, {"--optimizer.momentum=0.9", "--training.epochs=3"}));
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_NE(more.err.find("has no optimizer state for 39 parameters, which starts afresh"),
            std::string::npos)
      << more.err;
  const ProgramResult less = train(both(sgd, {"--training.epochs=4"}));
  EXPECT_EQ(less.exit_code, 4);
  EXPECT_NE(less.err.find("the checkpoint has the state of SGD with momentum, not of SGD"),
            std::string::npos)
      << less.err;
}

TEST_F(TrainEpochsTest, OneWordForNoDecayHasTheBitsOfThePatterns) {
  const std::string patterns = numbers_of({"--optimizer.no_decay=[\"*norm*\"]"});
  EXPECT_EQ(numbers_of({"--optimizer.no_decay=norms-and-biases"}), patterns);
  EXPECT_EQ(numbers_of(both(layout(1, 2),
                            {"--optimizer.no_decay=norms-and-biases", "--parallelism.zero1=true"})),
            patterns);
  EXPECT_NE(numbers_of({}), patterns);
}

}  // namespace
}  // namespace sluice::testing
