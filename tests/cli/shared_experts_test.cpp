// Replicas that share experts, combined with other settings. Losses must be those of replicas that
// hold all experts, and the bits must be the same however the state is sharded.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "train_fixture.h"

namespace sluice::testing {
namespace {

class SharedExpertsTest : public TrainCommandTest {
 protected:
  SharedExpertsTest() {
    auto model = nlohmann::json::parse(
        test::read_file(SLUICE_TEST_DATA "/reference/models_extra/mixtral_balance/config.json"));
    model["num_local_experts"] = 8;
    model["vocab_size"] = 256;
    test::write_file(folder_ / "model.json", model.dump());
    write_config("config = \"" + (folder_ / "model.json") + "\"", "global_batch_size = 16", "");
    std::string rows;
    for (int i = 0; i < 11; ++i)
      rows += nlohmann::json{{"text", std::string(static_cast<std::size_t>(3 + i * 5 % 13), 'a')}}
                  .dump() +
              "\n";
    test::write_file(folder_ / "rows.jsonl", rows);
  }

  static Options experts(int degree, int pp = 1) {
    return both(layout(pp, 4), {"--parallelism.expert_parallel_degree=" + std::to_string(degree)});
  }
  std::string checkpoint() const { return out() + "/checkpoint/step-00000003"; }

  std::string trained_with(const Options& options) const {
    const ProgramResult result = train_anew(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? numbers() : "";
  }
  std::vector<double> values(const char* name) const {
    std::vector<double> all;
    for (const nlohmann::json& line : metrics()) all.push_back(line.at(name));
    return all;
  }
  static void expect_close(const std::vector<double>& expected, const std::vector<double>& found,
                           double tolerance) {
    ASSERT_EQ(expected.size(), found.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], tolerance * expected[i]) << i;
  }
};

TEST_F(SharedExpertsTest, TrainsLikeReplicasThatHoldAllExperts) {
  for (const Options& more : {Options{}, Options{"--training.activation_checkpoint=full"},
                              Options{"--training.fused=off"}, Options{"--data.pack=true"},
                              Options{"--training.trainable=[\"*norm*\", \"*.experts.*\"]"}}) {
    trained_with(both(experts(1), more));
    const std::vector<double> losses = values("loss"), norms = values("grad_norm");
    for (const int degree : {2, 4}) {
      SCOPED_TRACE(::testing::PrintToString(more) + std::to_string(degree));
      trained_with(both(experts(degree, 2), more));
      expect_close(losses, values("loss"), 2e-6);
      expect_close(norms, values("grad_norm"), 2e-5);
    }
  }
}

TEST_F(SharedExpertsTest, MixedPrecisionIsNear) {
  const Options mixed = {"--training.mixed_precision=bfloat16"};
  trained_with(both(experts(1), mixed));
  const std::vector<double> losses = values("loss");
  trained_with(both(experts(4), mixed));
  expect_close(losses, values("loss"), 2e-3);
}

TEST_F(SharedExpertsTest, ShardedStateHasTheSameBits) {
  for (const int degree : {2, 4}) {
    const std::string whole = trained_with(experts(degree));
    for (const char* how : {"zero1", "zero3"}) {
      const Options sharded = {std::string("--parallelism.") + how + "=true"};
      EXPECT_EQ(trained_with(both(experts(degree), sharded)), whole) << how << degree;
      EXPECT_EQ(trained_with(both(experts(degree, 2), sharded)), whole) << how << degree;
    }
  }
}

TEST_F(SharedExpertsTest, EvaluatesAndValidates) {
  const Options validates = {"--validation.files=[\"" + (folder_ / "rows.jsonl") + "\"]",
                             "--validation.interval=1"};
  trained_with(both(experts(1), validates));
  const std::vector<double> losses = values("validation_loss");
  for (const int degree : {2, 4}) {
    trained_with(both(experts(degree), validates));
    expect_close(losses, values("validation_loss"), 2e-6);
    const ProgramResult result =
        run_sluice(both({"eval", config(), "--json", "--checkpoint", checkpoint(),
                         "--data.files=[\"" + (folder_ / "rows.jsonl") + "\"]"},
                        experts(degree)));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NEAR(nlohmann::json::parse(result.out).at("loss").get<double>(), losses.back(),
                1e-5 * losses.back());
  }
}

TEST_F(SharedExpertsTest, ResumesAtAnotherDegreeWithTheSameFiles) {
  trained_with(experts(1));
  const std::vector<double> losses = values("loss");
  fs::remove_all(out());
  for (const auto& [step, degree] : {std::pair(1, 4), std::pair(2, 2), std::pair(3, 1)}) {
    const ProgramResult result =
        train(both(experts(degree), {"--training.steps=" + std::to_string(step)}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  expect_close(losses, values("loss"), 2e-6);
  EXPECT_EQ(run_sluice({"checkpoint", "verify", checkpoint()}).exit_code, 0);
}

TEST_F(SharedExpertsTest, ProcessesHaveTheSameBits) {
  const std::string one = trained_with(experts(2));
  fs::remove_all(out());
  std::string line =
      quoted_for_shell(SLUICE_PROGRAM) + " launch -n 2 -- train " + quoted_for_shell(config());
  for (const std::string& option : experts(2)) line += " " + quoted_for_shell(option);
  const ProgramResult result = run_shell(line);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(numbers(), one);
}

TEST_F(SharedExpertsTest, WhatIsRefusedIsNamed) {
  expect_refused(experts(3), 2, "expert_parallel_degree = 3 does not divide 8 experts");
  expect_refused(experts(8), 2, "expert_parallel_degree = 8 does not divide 4 replicas");
  for (const auto& [option, says] :
       {std::pair("--parallelism.tensor_parallel_degree=2", "tensor_parallel_degree"),
        std::pair("--parallelism.reduction=fast", "reduction"),
        std::pair("--parallelism.reduce_grad_per_microbatch=true", "reduce_grad_per_microbatch"),
        std::pair("--parallelism.data_parallel_shards=8", "data_parallel_shards")})
    expect_refused(both(experts(2), {option}), 2, std::string("with parallelism.") + says);
  expect_refused(
      both(experts(2), {"--training.trainable=[\"*norm*\", \"*.experts.0.*\"]"}), 2,
      "only some experts of 'model.layers.0.block_sparse_moe.experts.*.w1.weight' train");
  expect_refused(both(experts(2), {"--training.layout_free=4"}), 2,
                 "expert_parallel_degree and training.layout_free exclude each other");
  expect_refused(both(experts(2), {"--model.config=", "--model.path=" + kModel}), 2,
                 "the model has no experts");
}

}  // namespace
}  // namespace sluice::testing
