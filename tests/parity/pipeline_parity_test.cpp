// Every layout must follow the reference curves of transformers with torch.optim in one process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sluice/causal_lm.h"
#include "sluice/partition.h"
#include "support/train_pipeline.h"

namespace sluice::test {
namespace {

constexpr double kLossTolerance = 1e-5;
constexpr double kNormTolerance = 1e-4;  // relative

const nlohmann::json& reference_case(const std::string& model) {
  static const nlohmann::json file = [] {
    std::ifstream stream(SLUICE_TEST_DATA "/reference/hf_reference.json");
    return nlohmann::json::parse(stream);
  }();
  for (const nlohmann::json& test : file["cases"]) {
    if (test["model"] == model) return test;
  }
  throw std::runtime_error("no reference case '" + model + "'");
}

TokenRows rows_of(const nlohmann::json& ids, const nlohmann::json& labels) {
  TokenRows rows{std::ssize(ids), std::ssize(ids[0]), {}, {}};
  const auto append = [](std::vector<std::int32_t>& tokens, const nlohmann::json& of) {
    for (const nlohmann::json& row : of) {
      const auto values = row.get<std::vector<std::int32_t>>();
      tokens.insert(tokens.end(), values.begin(), values.end());
    }
  };
  append(rows.ids, ids);
  append(rows.labels, labels);
  return rows;
}

struct Layout {
  int num_ranks;
  std::string schedule;
  int microbatch_size;
};
std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.num_ranks << " ranks, " << layout.schedule << ", microbatches of "
             << layout.microbatch_size;
}

std::vector<Layout> all_layouts() {
  std::vector<Layout> layouts;
  for (int num_ranks : {1, 2, 4}) {
    for (const char* schedule : {"GPipe", "1F1B"}) {
      for (int microbatch_size : {1, 2, 4, 8})
        layouts.push_back({num_ranks, schedule, microbatch_size});
    }
  }
  return layouts;
}

// The reference's batch is repeated in each step.
class ReferenceRun {
 public:
  explicit ReferenceRun(const std::string& model)
      : test_(reference_case(model)),
        spec_(read_model_spec(SLUICE_TEST_DATA "/reference/models/" + model)),
        directory_(SLUICE_TEST_DATA "/reference/models/" + model) {}

  const nlohmann::json& expect() const { return test_["expect"]; }

  TrainingRun run(const Layout& layout, const std::string& curve, int num_steps) const {
    TrainingRun run;
    run.model = [this] { return causal_lm(spec_); };
    PartitionOptions split;
    split.num_ranks = layout.num_ranks;
    split.schedule = layout.schedule;
    run.partition = make_partition(spec_, split);
    run.program = training_program(layout.schedule, layout.num_ranks, 8 / layout.microbatch_size,
                                   run.partition.tie_groups);
    const bool masked = curve == "adamw_masked";
    const TokenRows rows =
        rows_of(test_["input_ids"], masked ? expect()["masked"]["labels"] : test_["input_ids"]);
    for (int step = 1; step <= num_steps; ++step)
      run.steps.push_back(causal_lm_batch(rows, layout.microbatch_size, step));
    const bool adamw = curve.rfind("adamw", 0) == 0;
    run.options.optimizer.kind = adamw ? OptimizerKind::kAdamW : OptimizerKind::kSgd;
    run.options.optimizer.weight_decay = adamw ? 0.1 : 0.0;
    run.options.optimizer.max_norm = curve.ends_with("_clip1") ? 1.0 : 0.0;
    run.lr = adamw ? 1e-3 : 0.1;
    run.weights = &directory_;
    run.spec = &spec_;
    return run;
  }

 private:
  const nlohmann::json& test_;
  ModelSpec spec_;
  HfDirectory directory_;
};

void expect_curve(const ReferenceRun& reference, const Layout& layout, const std::string& curve) {
  SCOPED_TRACE(testing::Message() << curve << ": " << layout);
  const auto losses = reference.expect()[curve]["losses"].get<std::vector<double>>();
  const auto norms = reference.expect()[curve]["grad_norms_before_clip"].get<std::vector<double>>();
  // The last loss of the reference is the loss after its last step.
  const TrainingResult result =
      run_training(reference.run(layout, curve, static_cast<int>(losses.size())));
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(result.reports[i].loss, losses[i], kLossTolerance);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    EXPECT_NEAR(result.reports[i].grad_norm, norms[i], kNormTolerance * norms[i]);
  }
}

TEST(PipelineParityTest, UntiedLlamaFollowsEveryReferenceCurveOnEveryLayout) {
  const ReferenceRun reference("llama_untied");
  for (const Layout& layout : all_layouts()) {
    for (const char* curve : {"adamw", "adamw_clip1", "sgd", "sgd_clip1", "adamw_masked"}) {
      expect_curve(reference, layout, curve);
    }
  }
}

TEST(PipelineParityTest, TiedModelsFollowTheReferenceCurvesOnOneStageAndSeveral) {
  for (const char* model : {"llama_tied", "gpt2"}) {
    SCOPED_TRACE(model);
    const ReferenceRun reference(model);
    for (const Layout& layout : {Layout{1, "GPipe", 8}, Layout{2, "GPipe", 2}, Layout{4, "1F1B", 1},
                                 Layout{2, "1F1B", 4}}) {
      for (const char* curve : {"adamw", "adamw_clip1", "sgd", "sgd_clip1", "adamw_masked"}) {
        expect_curve(reference, layout, curve);
      }
    }
  }
}

TEST(PipelineParityTest, LossesAndFinalWeightsAreTheSameBitsForEveryNumberOfStagesAndSchedule) {
  for (const char* model : {"llama_untied", "llama_tied", "gpt2"}) {
    const ReferenceRun reference(model);
    for (int microbatch_size : {1, 2}) {
      const TrainingResult alone =
          run_training(reference.run({1, "GPipe", microbatch_size}, "adamw_clip1", 5));
      for (const Layout& layout : all_layouts()) {
        if (layout.microbatch_size != microbatch_size) continue;
        EXPECT_TRUE(same_bits(alone, run_training(reference.run(layout, "adamw_clip1", 5))))
            << model << ": " << layout;
      }
    }
  }
}

TEST(PipelineParityTest, EveryParametersGradientNormIsTheReferences) {
  for (const char* model : {"llama_untied", "llama_tied", "gpt2"}) {
    const ReferenceRun reference(model);
    const TrainingResult result = run_training(reference.run({4, "1F1B", 2}, "sgd", 1));
    const auto& expected = reference.expect()["grad_norms"];
    EXPECT_EQ(result.reports[0].parameter_norms.size(), expected.size());
    for (const auto& [name, norm] : result.reports[0].parameter_norms) {
      ASSERT_TRUE(expected.contains(name)) << name;
      EXPECT_NEAR(norm, expected[name].get<double>(), kNormTolerance * expected[name].get<double>())
          << name;
    }
  }
}

TEST(PipelineParityTest, NoRankHoldsParametersOfAnotherRanksStage) {
  const ReferenceRun reference("llama_untied");
  for (int num_ranks : {1, 2, 4}) {
    TrainingRun run = reference.run({num_ranks, "1F1B", 2}, "adamw", 2);
    MemoryLedger ledger(num_ranks);
    run.ledger = &ledger;
    std::int64_t whole_model = 0;
    std::mutex mutex;
    run.before_steps = [&](RankTrainer& trainer, Transport& transport) {
      std::int64_t own = 0, largest = 0;
      for (const ParameterInfo& info : trainer.parameters()) {
        own += static_cast<std::int64_t>(info.tensor.nbytes());
        largest = std::max(largest, static_cast<std::int64_t>(info.tensor.nbytes()));
      }
      const std::int64_t expected = own + trainer.optimizer().state_bytes();
      EXPECT_EQ(ledger.live_bytes(transport.rank()), expected) << num_ranks;
      EXPECT_LE(ledger.peak_bytes(transport.rank()), expected + largest) << num_ranks;
      const std::lock_guard lock(mutex);
      whole_model += own;
    };
    run_training(run);
    EXPECT_EQ(whole_model, 180'800 * 4);
  }
}

}  // namespace
}  // namespace sluice::test
