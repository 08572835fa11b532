// The results of a decoder with experts must not depend on the layout. Auxiliary losses are
// differentiated, too.
#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "layer/initialize_chunks.h"
#include "sluice/causal_lm.h"
#include "support/even_partition.h"
#include "support/train_pipeline.h"

namespace sluice::test::experts_training_test {
namespace {

constexpr int kMicrobatches = 4;
constexpr int kSteps = 3;

ModelSpec spec_of(bool balanced) {
  return parse_model_spec(std::string(R"({"model_type": "qwen3_moe", "vocab_size": 50,
    "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "moe_intermediate_size": 12, "num_experts": 6,
    "num_experts_per_tok": 3, "norm_topk_prob": true, "mlp_only_layers": [1],
    "router_aux_loss_coef": 0.4, "initializer_range": 0.2, "output_router_logits": )") +
                              (balanced ? "true}" : "false}"),
                          "config.json");
}

// Row lengths differ between microbatches.
std::vector<StepBatch> batches(bool masked) {
  std::vector<StepBatch> steps;
  for (int k = 1; k <= kSteps; ++k) {
    StepBatch step;
    step.step = k;
    for (int m = 0; m < kMicrobatches; ++m) {
      const std::int64_t length = 6 + (3 * m + k) % 5;
      const at::Tensor ids =
          (at::arange(2 * length, at::kLong) * 7 + 13 * (m + k)).remainder(50).view({2, length});
      at::Tensor mask;
      if (masked) {
        mask = at::ones_like(ids);
        mask.select(0, 1).narrow(0, 0, 1 + m).zero_();
      }
      const at::Tensor labels = masked ? ids.masked_fill(mask.eq(0), kIgnoredLabel) : ids;
      step.microbatches.push_back(
          {{"input_ids", ids}, {"labels", labels}, {"attention_mask", mask}, {"position_ids", {}}});
      step.counts.push_back(count_tokens(labels));
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

struct Kind {
  bool masked = false, recomputed = false, autocast = false, frozen_routers = false;
};

TrainingRun run_of(const Kind& kind, const std::string& schedule, int num_ranks,
                   bool balanced = true) {
  TrainingRun run;
  ModelSpec spec = spec_of(balanced);
  if (kind.frozen_routers) {
    for (LayerInfo& layer : spec.layers) {
      for (ParameterSpec& parameter : layer.parameters)
        parameter.trainable = !parameter.name.ends_with("mlp.gate.weight");
    }
  }
  run.model = [spec, kind] {
    Model model = causal_lm(spec);
    for (LayerSpec& layer : model.layers)
      layer.recompute = kind.recomputed && layer.role == LayerRole::kBlock;
    return model;
  };
  run.program = training_program(schedule, num_ranks, kMicrobatches);
  run.partition = even_partition(run.model(), run.program.stage_map);
  run.steps = batches(kind.masked);
  run.options.seed = 5;
  if (kind.autocast) run.options.autocast = at::kBFloat16;
  return run;
}

TEST(ExpertsTrainingTest, LossesNormsAndWeightsAreTheSameBitsForEveryLayoutAndSchedule) {
  const std::vector<std::pair<std::string, Kind>> kinds = {
      {"plain", {}},
      {"masked", {.masked = true}},
      {"autocast", {.autocast = true}},
      {"masked, routers frozen", {.masked = true, .frozen_routers = true}}};
  for (const auto& [name, kind] : kinds) {
    const TrainingResult alone = run_training(run_of(kind, "GPipe", 1));
    EXPECT_LT(alone.reports.back().loss, alone.reports.front().loss) << name;
    for (const auto& [schedule, ranks] : std::vector<std::pair<std::string, int>>{
             {"1F1B", 2}, {"1F1B", 4}, {"InterleavedZeroBubble", 2}, {"ZBVZeroBubble", 2}}) {
      for (const bool recomputed : {false, true}) {
        Kind again = kind;
        again.recomputed = recomputed;
        EXPECT_TRUE(same_bits(run_training(run_of(again, schedule, ranks)), alone))
            << name << " " << schedule << " " << ranks << (recomputed ? " recomputed" : "");
      }
    }
  }
}

TEST(ExpertsTrainingTest, TheLossOfAStepIsThatOfItsTokensAndTheMeanBalanceOfItsLayers) {
  for (const bool masked : {false, true}) {
    const TrainingRun run = run_of({.masked = masked}, "1F1B", 2);
    const TrainingResult with = run_training(run);
    const TrainingResult without = run_training(run_of({.masked = masked}, "1F1B", 2, false));

    // Compute the first step's balance loss from the initial weights.
    const Model model = run.model();
    std::vector<std::string> outputs = model.outputs;
    for (const LayerSpec& layer : model.layers)
      outputs.insert(outputs.end(), layer.writes.begin() + 1, layer.writes.end());
    ASSERT_EQ(outputs.size(), 1u + 3u);
    Chunk chunk(model.layers, 0, {}, outputs);
    initialize_parameters(chunk, 5);
    const StepBatch& step = run.steps.front();
    double balance = 0, tokens = 0;
    for (std::size_t m = 0; m < step.microbatches.size(); ++m) {
      const Values found = chunk.forward({}, step.microbatches.at(m), 5, 1, 0);
      double mean = 0;
      for (std::size_t i = 1; i < outputs.size(); ++i)
        mean += found.get(outputs[i]).item<double>() / 3;
      balance += mean * static_cast<double>(step.counts[m]);
      tokens += static_cast<double>(step.counts[m]);
    }
    EXPECT_NEAR(with.reports[0].loss, without.reports[0].loss + 0.4 * balance / tokens, 1e-6);
    EXPECT_NE(with.reports[0].grad_norm, without.reports[0].grad_norm);
  }
}

}  // namespace
}  // namespace sluice::test::experts_training_test
