// Trains native families whose experts are shared by replicas. Losses, norms and weights must be
// those of replicas that hold all experts, and the same bits for every pipeline.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sluice/causal_lm.h"
#include "sluice/checkpoint.h"
#include "sluice/pipeline.h"
#include "sluice/trainer.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice::test::expert_parallel_test {
namespace {

struct Layout {
  int ep = 1, dp = 4, pp = 1;
  const char* schedule = "1F1B";
  bool checkpointed = false;
};

std::string name_of(const Layout& layout) {
  return "ep " + std::to_string(layout.ep) + " dp " + std::to_string(layout.dp) + " pp " +
         std::to_string(layout.pp) + " " + layout.schedule +
         (layout.checkpointed ? " checkpointed" : "");
}

PipelineOptions options_of(const Layout& layout) {
  PipelineOptions options;
  options.num_ranks = layout.pp;
  options.schedule = layout.schedule;
  options.num_microbatches = 8 / layout.dp;
  options.data_parallel = {.degree = layout.dp};
  options.expert_parallel = {.degree = layout.ep};
  options.step_end = StepEnd::kUpdate;
  if (layout.checkpointed) options.activation_checkpoint = ActivationCheckpoint::kFull;
  return options;
}

// `edit` changes the reference model's configuration.
ModelSpec spec_of(const std::string& reference,
                  const std::function<void(nlohmann::json&)>& edit = {}) {
  nlohmann::json config = nlohmann::json::parse(
      read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/models_extra/" + reference)
          .config_text);
  config["num_hidden_layers"] = 4;
  config.erase("layer_types");
  if (edit) edit(config);
  return parse_model_spec(config.dump(), "config.json");
}

constexpr std::int64_t kRows = 8, kLength = 6, kVocabulary = 37;

// Some rows repeat a token, so that experts and even ranks get no tokens.
Inputs rows_of(int step, int replica, int degree) {
  at::Tensor ids = at::arange(kRows * kLength, at::kLong)
                       .mul(7)
                       .add(step)
                       .remainder(kVocabulary)
                       .view({kRows, kLength});
  ids.slice(0, 0, 4).fill_(5);
  const at::Tensor own = ids.tensor_split(degree)[static_cast<std::size_t>(replica)];
  return {{"input_ids", own}, {"labels", own}};
}

struct Result {
  std::vector<double> losses, norms;
  std::vector<std::pair<std::string, double>> norms_of_last;
  std::map<std::string, at::Tensor> weights;
  std::map<std::string, std::string> hashes;  // of weights and optimizer state
};

Result train(const Model& model, const Layout& layout, const std::string& to,
             const std::string& from = "", int first = 0, int last = 5) {
  Result result;
  std::mutex mutex;
  RunOptions options;
  options.seed = 3;
  run(
      model, options_of(layout),
      [&](Pipeline& pipeline) {
        Trainer trainer(pipeline, {.max_norm = 0.5});
        if (!from.empty()) pipeline.load(from);
        Result own;
        for (int step = first; step < last; ++step) {
          const StepResult done = trainer.step(rows_of(step, pipeline.replica(), layout.dp), 1e-2);
          own.losses.push_back(done.loss);
          own.norms.push_back(done.grad_norm);
          own.norms_of_last = done.parameter_norms;
        }
        pipeline.save(to);
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(result.losses.empty() || result.losses == own.losses) << name_of(layout);
        EXPECT_TRUE(result.norms.empty() || result.norms == own.norms) << name_of(layout);
        result = std::move(own);
      },
      options);
  const Checkpoint checkpoint(to);
  for (const auto* tensors : {&checkpoint.manifest().weights, &checkpoint.manifest().optimizer})
    for (const SavedTensor& tensor : *tensors) result.hashes[tensor.name] = tensor.hash;
  for (const SavedTensor& tensor : checkpoint.manifest().weights)
    result.weights[tensor.name] = checkpoint.read(SavedKind::kWeights, tensor.name);
  return result;
}

double relative(double a, double b) { return std::abs(a - b) / std::max(1e-12, std::abs(b)); }

void expect_close(const Result& expected, const Result& found, const std::string& what) {
  ASSERT_EQ(expected.losses.size(), found.losses.size()) << what;
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_LT(relative(found.losses[i], expected.losses[i]), 2e-6) << what << ", step " << i;
    EXPECT_LT(relative(found.norms[i], expected.norms[i]), 1e-5) << what << ", step " << i;
  }
  ASSERT_EQ(expected.norms_of_last.size(), found.norms_of_last.size()) << what;
  for (std::size_t i = 0; i < expected.norms_of_last.size(); ++i) {
    const auto& [name, norm] = expected.norms_of_last[i];
    EXPECT_EQ(found.norms_of_last[i].first, name) << what;
    EXPECT_NEAR(found.norms_of_last[i].second, norm, 1e-4 * norm + 1e-7) << name << ", " << what;
  }
  ASSERT_EQ(expected.hashes.size(), found.hashes.size()) << what;
  for (const auto& [name, tensor] : expected.weights) {
    ASSERT_TRUE(found.weights.contains(name)) << name << ", " << what;
    EXPECT_LT((found.weights.at(name) - tensor).abs().max().item<double>(), 2e-4)
        << name << ", " << what;
  }
}

void expect_same(const Result& a, const Result& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_EQ(a.norms_of_last, b.norms_of_last) << what;
  EXPECT_EQ(a.hashes, b.hashes) << what;
}

class ExpertParallelTest : public testing::TestWithParam<const char*> {};

TEST_P(ExpertParallelTest, TrainsLikeReplicasThatHoldAllExperts) {
  const TempDirectory folder;
  const Model model = causal_lm(spec_of(GetParam(), [](nlohmann::json& config) {
    for (const char* key : {"num_local_experts", "num_experts"})
      if (config.contains(key)) config[key] = 8;
  }));
  const Result whole = train(model, {.ep = 1}, folder / "whole");
  for (const int ep : {2, 4}) {
    const Result shared = train(model, {.ep = ep}, folder / ("ep" + std::to_string(ep)));
    expect_close(whole, shared, "ep " + std::to_string(ep));
    for (const Layout& layout :
         {Layout{.ep = ep, .pp = 2}, Layout{.ep = ep, .pp = 2, .schedule = "GPipe"},
          Layout{.ep = ep, .pp = 2, .schedule = "ZBVZeroBubble"},
          Layout{.ep = ep, .checkpointed = true}})
      expect_same(shared, train(model, layout, folder / name_of(layout)), name_of(layout));
  }
}

INSTANTIATE_TEST_SUITE_P(, ExpertParallelTest,
                         testing::Values("mixtral_balance", "qwen3_moe", "olmoe_balance"));

TEST(ExpertParallelRunTest, ACheckpointGoesOnAtAnyDegree) {
  const TempDirectory folder;
  const Model model = causal_lm(
      spec_of("mixtral_balance", [](nlohmann::json& config) { config["num_local_experts"] = 8; }));
  const Result whole = train(model, {.ep = 1}, folder / "whole");
  train(model, {.ep = 4}, folder / "two", "", 0, 2);
  train(model, {.ep = 2, .pp = 2}, folder / "three", folder / "two", 2, 3);
  const Result rest = train(model, {.ep = 1}, folder / "five", folder / "three", 3, 5);
  for (std::size_t i = 0; i < rest.losses.size(); ++i)
    EXPECT_LT(relative(rest.losses[i], whole.losses[i + 3]), 2e-6) << i;
}

TEST(ExpertParallelRunTest, ARankHoldsOnlyItsExperts) {
  const Model model = causal_lm(
      spec_of("mixtral_balance", [](nlohmann::json& config) { config["num_local_experts"] = 8; }));
  run(model, options_of({.ep = 4}), [&](Pipeline& pipeline) {
    int experts = 0;
    for (const ParameterInfo& parameter : pipeline.named_parameters())
      experts += parameter.name.find(".experts.") != std::string::npos;
    EXPECT_EQ(experts, 4 * 8 * 3 / 4);  // layers x experts x matrices / ranks
  });
}

TEST(ExpertParallelRunTest, EvaluatesWithEquallyManyMicrobatches) {
  const Model model = causal_lm(
      spec_of("mixtral_balance", [](nlohmann::json& config) { config["num_local_experts"] = 8; }));
  std::map<int, double> losses;
  for (const int ep : {1, 2}) {
    std::mutex mutex;
    run(model, options_of({.ep = ep, .dp = 2}), [&](Pipeline& pipeline) {
      const double loss = pipeline.eval_step(rows_of(1, pipeline.replica(), 2)).loss;
      const std::lock_guard lock(mutex);
      losses[ep] = loss;
    });
  }
  EXPECT_LT(relative(losses[2], losses[1]), 1e-6);
}

}  // namespace
}  // namespace sluice::test::expert_parallel_test
