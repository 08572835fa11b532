// Ranks that share layers, combined with every other setting (the rows of the table in
// docs/parallelism.md). The bits must be those of one rank with the same slices.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

// A model with four key-value heads, in four slices.
class SharedLayersTest : public TrainCommandTest {
 protected:
  SharedLayersTest() {
    auto model = nlohmann::json::parse(test::read_file(kModel + "/config.json"));
    model["num_key_value_heads"] = 4;
    test::write_file(folder_ / "model.json", model.dump());
    write_config("config = \"" + (folder_ / "model.json") + "\"", "global_batch_size = 8",
                 R"([parallelism]
tensor_parallel_slices = 4
data_parallel_shards = 2
[comm]
heartbeat_seconds = 60
)");
    std::string rows;
    for (int i = 0; i < 40; ++i)
      rows += nlohmann::json{{"text", std::string(static_cast<std::size_t>(3 + i * 5 % 13), 'a')}}
                  .dump() +
              "\n";
    test::write_file(folder_ / "rows.jsonl", rows);
  }

  std::string rows() const { return "--data.files=[\"" + (folder_ / "rows.jsonl") + "\"]"; }
  std::string checkpoint() const { return out() + "/checkpoint/step-00000003"; }

  static std::string text_of(const Options& options) {
    std::string text;
    for (const std::string& option : options) text += option + " ";
    return text;
  }

  std::string trained_with(const Options& options) const {
    const ProgramResult result = train_anew(options);
    EXPECT_EQ(result.exit_code, 0) << text_of(options) << result.err;
    return result.exit_code == 0 ? numbers() : "";
  }

  struct Way {
    Options of_all;   // for every layout
    Options of_more;  // only if ranks share layers
    int dp = 1;
  };
  void expect_bits_of_one_rank(const Way& way) const {
    const std::string one = trained_with(both(layout(1, 1), way.of_all));
    for (const Options& shared :
         {layout(2, way.dp, 2),
          both(layout(1, way.dp, 4), {"--parallelism.sequence_parallel=false"})}) {
      const Options options = both(both(shared, way.of_all), way.of_more);
      EXPECT_EQ(trained_with(options), one) << text_of(options);
    }
  }
};

TEST_F(SharedLayersTest, LengthsThatTheSlicesDoNotDivide) {
  expect_bits_of_one_rank({.of_all = {rows(), "--data.pad=longest", "--data.shuffle=false"}});
  expect_bits_of_one_rank({.of_all = {"--training.seq_len=15"}});
}

class MoreSharedLayersTest : public SharedLayersTest {};

TEST_F(MoreSharedLayersTest, FamiliesWithEveryLength) {
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    std::vector<int> ids;
    for (int k = 0; k < 3 + i * 5 % 13; ++k) ids.push_back((i + k * 7) % 31);
    rows += nlohmann::json{{"input_ids", ids}}.dump() + "\n";
  }
  test::write_file(folder_ / "ids.jsonl", rows);
  for (const char* family :
       {"models/gpt2", "models_extra/gemma2", "models_extra/gemma3", "models_extra/granite_biases",
        "models_extra/llama_yarn", "models_extra/mistral", "models_extra/mixtral_balance",
        "models_extra/phi3_window", "models_extra/qwen2_windows", "models_extra/qwen3_biases_tied",
        "models_extra/starcoder2"}) {
    auto model = nlohmann::json::parse(
        test::read_file(std::string(SLUICE_TEST_DATA) + "/reference/" + family + "/config.json"));
    for (const char* heads : {"num_attention_heads", "num_key_value_heads"}) {
      if (model.value(heads, 2) % 2 != 0) model[heads] = 2 * model[heads].get<int>();
    }
    test::write_file(folder_ / "model.json", model.dump());
    const Options options = {"--data.files=[\"" + (folder_ / "ids.jsonl") + "\"]",
                             "--data.pad=longest", "--parallelism.tensor_parallel_slices=2"};
    EXPECT_EQ(trained_with(both(layout(2, 1, 2), options)),
              trained_with(both(layout(1, 1), options)))
        << family;
  }
}

TEST_F(MoreSharedLayersTest, LayersThatRunTwice) {
  expect_bits_of_one_rank({.of_more = {"--training.activation_checkpoint=full"}});
  expect_bits_of_one_rank({.of_more = {"--training.activation_checkpoint=[\"model.layers.1\"]"}});
}

TEST_F(MoreSharedLayersTest, MixedPrecisionAndHalfPrecision) {
  expect_bits_of_one_rank({.of_all = {"--training.mixed_precision=bfloat16"}});
  expect_bits_of_one_rank({.of_all = {"--model.dtype=bfloat16"}});
}

TEST_F(MoreSharedLayersTest, PlainOperators) {
  expect_bits_of_one_rank({.of_all = {"--training.fused=off"}});
}

TEST_F(MoreSharedLayersTest, FrozenParameters) {
  expect_bits_of_one_rank({.of_all = {"--training.trainable=[\"*norm*\", \"lm_head*\"]"}});
  expect_bits_of_one_rank({.of_all = {"--training.trainable=[\"*q_proj*\", \"*down_proj*\"]"}});
}

TEST_F(MoreSharedLayersTest, ReplicasAndShardedState) {
  for (const char* how : {"zero1=false", "zero1=true", "zero3=true"})
    expect_bits_of_one_rank({.of_more = {std::string("--parallelism.") + how}, .dp = 2});
}

TEST_F(MoreSharedLayersTest, Optimizers) {
  expect_bits_of_one_rank({.of_all = {"--optimizer.name=SGD", "--optimizer.no_decay=[\"*norm*\"]",
                                      "--optimizer.max_norm=0.1", "--metrics.parameter_norms=true",
                                      "--lr_scheduler.warmup_steps=2"}});
}

TEST_F(MoreSharedLayersTest, SchedulesNamedChosenAndRead) {
  const std::string key = "--parallelism.pipeline_parallel_schedule";
  const std::string csv = folder_ / "schedule.csv";
  ASSERT_EQ(
      run_sluice({"schedule", "--name=ZBVZeroBubble", "--pp=2", "--microbatches=4", "--out=" + csv})
          .exit_code,
      0);
  for (const Options& schedule :
       {Options{key + "=DualPipeV"}, Options{key + "=Interleaved1F1B"}, Options{key + "=auto"},
        Options{key + "_csv=" + csv, "--parallelism.stage_to_rank=v"}}) {
    const std::string one = trained_with(layout(1, 1));
    EXPECT_EQ(trained_with(both(layout(2, 1, 2), schedule)), one) << text_of(schedule);
  }
}

TEST_F(MoreSharedLayersTest, Partitions) {
  for (const char* how :
       {"pipeline_parallel_cuts=[\"model.layers.0\"]", "partition=cost", "partition=measured",
        "partition_convention=automodel", "first_stage_weight=2"})
    expect_bits_of_one_rank({.of_more = {std::string("--parallelism.") + how}});
}

// The backend's own sum and sums per microbatch only have the bits of the same number of replicas.
TEST_F(MoreSharedLayersTest, WaysToReduceAndToScale) {
  expect_bits_of_one_rank({.of_all = {"--parallelism.scale_grads=microbatches"}});
  for (const char* how : {"reduction=fast", "reduce_grad_per_microbatch=true"}) {
    const Options options = {std::string("--parallelism.") + how};
    const std::string replicas = trained_with(both(layout(1, 2), options));
    EXPECT_EQ(trained_with(both(layout(2, 2, 2), options)), replicas) << how;
  }
}

TEST_F(MoreSharedLayersTest, FormatsOfData) {
  expect_bits_of_one_rank({.of_all = {rows(), "--data.pack=true"}});
  expect_bits_of_one_rank({.of_all = {rows(), "--data.pack=true", "--training.seq_len=15"}});
  expect_bits_of_one_rank({.of_all = {rows(), "--data.pad=seq_len"}});
  std::string tokens(1024, '\0');  // llm.c format: a header of 256 numbers, then uint16
  const auto put = [&](std::size_t at, std::uint32_t value) {
    std::memcpy(tokens.data() + 4 * at, &value, 4);
  };
  put(0, 20240520);
  put(1, 1);
  put(2, 600);
  for (int i = 0; i < 600; ++i) {
    tokens += static_cast<char>(i * 7 % 97);
    tokens += '\0';
  }
  test::write_file(folder_ / "tokens.bin", tokens);
  expect_bits_of_one_rank(
      {.of_all = {"--data.files=[\"" + (folder_ / "tokens.bin") + "\"]", "--data.format=llmc"}});
}

TEST_F(MoreSharedLayersTest, OrdersOfRanks) {
  for (const char* order : {"pp,dp", "dp,pp", "tp,cp,dp,pp"})
    expect_bits_of_one_rank(
        {.of_more = {std::string("--parallelism.rank_order=") + order}, .dp = 2});
}

TEST_F(MoreSharedLayersTest, EvaluationAndValidation) {
  const Options validates = {"--validation.files=[\"" + (folder_ / "rows.jsonl") + "\"]",
                             "--validation.interval=1"};
  const auto losses = [&](const Options& options) {
    trained_with(both(options, validates));
    std::string text;
    for (const nlohmann::json& line : metrics()) text += line.at("validation_loss").dump() + " ";
    return text;
  };
  EXPECT_EQ(losses(layout(2, 1, 2)), losses(layout(1, 1)));
  const auto evaluated = [&](const Options& options) {
    const ProgramResult result = run_sluice(both(
        {"eval", config(), "--json", "--checkpoint", checkpoint(), rows(), "--data.pad=longest"},
        options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string one = evaluated(layout(1, 1));
  EXPECT_EQ(evaluated(layout(2, 1, 2)), one);
  EXPECT_EQ(evaluated(both(layout(1, 1, 4), {"--parallelism.sequence_parallel=false"})), one);
}

// Slices do not divide most lengths of the growing text.
TEST_F(MoreSharedLayersTest, Samples) {
  trained_with(layout(1, 1));
  const auto sample = [&](const Options& options) {
    const ProgramResult result =
        run_sluice(both({"sample", checkpoint(), "--prompt", "the quick", "--json", "--tokens", "6",
                         "--data.tokenizer=bytes", "--parallelism.tensor_parallel_slices=4"},
                        options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string one = sample(layout(1, 1));
  EXPECT_EQ(sample(layout(2, 1, 2)), one);
  EXPECT_EQ(sample(layout(1, 1, 4)), one);
}

TEST_F(MoreSharedLayersTest, AProfileHasTheStepsOfEveryRank) {
  const std::string one = trained_with(layout(1, 1));
  const std::string trace = folder_ / "trace.json";
  EXPECT_EQ(trained_with(both(layout(2, 1, 2), {"--profile=" + trace})), one);
  std::set<int> ranks;
  const nlohmann::json events = nlohmann::json::parse(test::read_file(trace)).at("traceEvents");
  for (const nlohmann::json& event : events) ranks.insert(event.at("pid").get<int>());
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3}));
}

TEST_F(MoreSharedLayersTest, ResumesExportsAndComparisons) {
  const std::string one = trained_with(layout(1, 1));
  fs::copy(checkpoint(), folder_ / "one", fs::copy_options::recursive);
  fs::remove_all(out());
  const std::vector<Options> layouts = {layout(1, 1, 4), layout(2, 1, 2), layout(1, 1)};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const ProgramResult result =
        train(both(layouts[i], {"--training.steps=" + std::to_string(i + 1)}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(numbers(), one);
  EXPECT_EQ(run_sluice({"checkpoint", "diff", folder_ / "one", checkpoint()}).exit_code, 0);
  EXPECT_EQ(run_sluice({"checkpoint", "verify", checkpoint()}).exit_code, 0);
  ASSERT_EQ(run_sluice({"checkpoint", "export", checkpoint(), folder_ / "exported"}).exit_code, 0);
  EXPECT_TRUE(test::read_file(folder_ / "exported/model.safetensors") ==
              test::read_file(folder_ / "one/model.safetensors"))
      << "other bytes of files";
}

TEST_F(MoreSharedLayersTest, LaunchedProcessesAndRestarts) {
  const std::string one = trained_with(layout(1, 1));
  fs::remove_all(out());
  std::string line = " launch -n 2 --max-restarts 1 -- train " + quoted_for_shell(config());
  for (const std::string& option : both(layout(2, 1, 2), {"--checkpoint.interval=1"}))
    line += " " + quoted_for_shell(option);
  const ProgramResult result = run_shell("SLUICE_FAULT=kill:rank=1,step=3,action=F,call=2 " +
                                         quoted_for_shell(SLUICE_PROGRAM) + line);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("process "), std::string::npos) << "nothing was killed: " << result.err;
  EXPECT_EQ(numbers(), one);
}

TEST_F(MoreSharedLayersTest, WhatIsRefusedIsNamed) {
  const Options two = both(layout(1, 1, 2), {"--parallelism.tensor_parallel_slices=2"});
  const std::string reference = std::string(SLUICE_TEST_DATA) + "/reference/";
  expect_refused(both(two, {"--model.config=", "--model.path=" + kModel, "--lora.rank=4"}), 2,
                 "layers with adapters are not divided among ranks yet");
  expect_refused(both(two, {"--model.config=" + reference + "models_extra/olmo2/config.json"}), 2,
                 "'model.layers.0' of 'olmo2' is not divided among ranks, since it norms queries "
                 "and keys over all heads");
  expect_refused(both(two, {"--model.config=" + reference + "models_extra/olmoe/config.json"}), 2,
                 "'model.layers.0' of 'olmoe' is not divided among ranks, since it norms queries "
                 "and keys over all heads");
}

}  // namespace
}  // namespace sluice::testing
