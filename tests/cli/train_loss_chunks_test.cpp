// Large vocabularies: head and loss are computed in blocks of the vocabulary.
#include <gtest/gtest.h>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class TrainLossChunksTest : public TrainCommandTest {
 protected:
  TrainLossChunksTest() {
    test::write_file(folder_ / "large.json", R"({"model_type": "llama", "vocab_size": 50000,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "initializer_range": 0.05})");
  }

  std::vector<std::string> large(std::vector<std::string> more) const {
    more.insert(more.begin(), {"--model.path=", "--model.config=" + (folder_ / "large.json"),
                               "--training.seq_len=128", "--training.microbatch_size=4",
                               "--training.local_batch_size=16"});
    return more;
  }

  static std::size_t rank_of_head(const std::string& schedule) {
    return schedule == "ZBVZeroBubble" ? 0 : 1;
  }

  struct Peaks {
    std::vector<double> predicted, measured;
    std::vector<double> losses;
  };
  Peaks peaks(const std::vector<std::string>& more, bool by_blocks) const {
    const std::vector<std::string> options = large(more);
    const ProgramResult result = train_anew(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out.find(", loss by blocks") != std::string::npos, by_blocks) << result.out;
    Peaks of;
    of.predicted = predicted_peaks(options);
    of.measured = metrics().back().at("memory_bytes").get<std::vector<double>>();
    for (const nlohmann::json& line : metrics()) of.losses.push_back(line.at("loss"));
    return of;
  }
};

TEST_F(TrainLossChunksTest, PeakMemoryFallsByTheLogitsAsPredictedAndTheCurveStays) {
  constexpr double kLogits = 4.0 * 128 * 50000 * 4;
  for (const std::string schedule : {"1F1B", "ZBVZeroBubble"}) {
    const std::string option = "--parallelism.pipeline_parallel_schedule=" + schedule;
    const Peaks whole = peaks({option, "--training.loss_chunks=off"}, /*by_blocks=*/false),
                blocks = peaks({option}, /*by_blocks=*/true);
    const std::size_t rank = rank_of_head(schedule);
    EXPECT_LT(blocks.measured[rank], whole.measured[rank] - 0.9 * kLogits) << schedule;
    for (const Peaks* of : {&whole, &blocks})
      EXPECT_NEAR(of->predicted[rank] / of->measured[rank], 1, 0.04) << schedule;
    ASSERT_EQ(blocks.losses.size(), whole.losses.size());
    for (std::size_t i = 0; i < whole.losses.size(); ++i)
      EXPECT_NEAR(blocks.losses[i], whole.losses[i], 1e-6 * whole.losses[i]) << schedule;
  }
}

TEST_F(TrainLossChunksTest, PeakMemoryOfAFrozenHeadIsPredicted) {
  for (const std::string schedule : {"1F1B", "ZBVZeroBubble"}) {
    const Peaks of = peaks({"--parallelism.pipeline_parallel_schedule=" + schedule,
                            "--training.trainable=[\"model.*\"]"},
                           /*by_blocks=*/true);
    const std::size_t rank = rank_of_head(schedule);
    EXPECT_NEAR(of.predicted[rank] / of.measured[rank], 1, 0.04) << schedule;
  }
}

TEST_F(TrainLossChunksTest, EveryLayoutHasTheSameBits) {
  std::string expected;
  for (const std::string layout : {"1F1B 1", "GPipe 2", "ZBVZeroBubble 2"}) {
    const std::size_t space = layout.find(' ');
    const ProgramResult result =
        train_anew(large({"--training.loss_chunks=on", "--training.microbatch_size=1",
                          "--training.local_batch_size=4", "--training.steps=2",
                          "--parallelism.pipeline_parallel_schedule=" + layout.substr(0, space),
                          "--parallelism.pipeline_parallel_degree=" + layout.substr(space + 1)}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::string numbers;
    for (const nlohmann::json& line : metrics())
      numbers += line["loss"].dump() + " " + line["grad_norm"].dump() + "\n";
    if (expected.empty()) expected = numbers;
    EXPECT_EQ(numbers, expected) << layout;
  }
}

TEST_F(TrainLossChunksTest, PlanAndSplitShowTheShapeOfTheLogits) {
  const auto in_plan =
      nlohmann::json::parse(run_sluice(both({"plan", config(), "--json"}, large({}))).out)
          .at("split");
  const auto split =
      nlohmann::json::parse(run_sluice({"split", "--model", folder_ / "large.json", "--stages", "2",
                                        "--microbatch-size", "4", "--seq-len", "128", "--json"})
                                .out);
  EXPECT_EQ(in_plan.at("stages").back().at("output_shape").dump(), "[4,128,50000]");
  EXPECT_EQ(split.at("stages").back().at("output_shape").dump(), "[4,128,50000]");
}

TEST_F(TrainLossChunksTest, SmallVocabulariesAndPlainOperatorsKeepWholeLogits) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, {"--training.loss_chunks=on", "--training.fused=off"}}) {
    const ProgramResult result = train_anew(options);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out.find("loss by blocks"), std::string::npos) << result.out;
  }
}

TEST_F(TrainLossChunksTest, EvaluationComputesTheSameLoss) {
  const ProgramResult trained = train_anew(large({"--training.steps=1"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const auto evaluated = [&](const std::string& chunks) {
    std::vector<std::string> command = {"eval",
                                        config(),
                                        "--model.path=" + out() + "/checkpoint/step-00000001",
                                        "--training.seq_len=128",
                                        "--training.loss_chunks=" + chunks,
                                        "--json"};
    const ProgramResult result = run_sluice(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("loss").get<double>();
  };
  const double whole = evaluated("off");
  EXPECT_NEAR(evaluated("on"), whole, 1e-6 * whole);
}

}  // namespace
}  // namespace sluice::testing
