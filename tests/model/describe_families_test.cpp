#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/name_pattern.h"
#include "layer/autocast.h"
#include "model/support.h"
#include "plan/passes/passes.h"
#include "plan/predict/activation_memory.h"
#include "sluice/model.h"
#include "sluice/model_spec.h"
#include "sluice/partition.h"
#include "sluice/plan.h"

namespace sluice {
namespace {

constexpr std::int64_t kLength = 16;

ModelSpec plain_spec_of(const std::string& model) {
  return read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/" + model, {.fused = false});
}

// Returns the measured description. It uses LibTorch's operators, because describe() cannot look
// inside fused ones.
ModelSpec measured(const ModelSpec& spec, LayerOptions options = {}) {
  options.fused = false;
  at::set_num_threads(1);  // for tiny models, starting threads takes longer than the work
  const TensorMeta ids{{2, kLength}, at::kLong};
  const TensorMeta absent{{}, at::ScalarType::Undefined};
  return describe(
      make_layers(spec, options),
      {{"input_ids", ids}, {"labels", ids}, {"attention_mask", absent}, {"position_ids", absent}});
}

const std::vector<std::string> kDescribed = {"models/llama_tied",
                                             "models/gpt2",
                                             "models_extra/grouped_query",
                                             "models_extra/biases",
                                             "models_extra/mistral",
                                             "models_extra/qwen3",
                                             "models_extra/gemma2",
                                             "models_extra/gemma3",
                                             "models_extra/olmo2_biases",
                                             "models_extra/granite",
                                             "models_extra/smollm3",
                                             "models_extra/llama_relu",
                                             "models_extra/mixtral",
                                             "models_extra/qwen3_moe_some",
                                             "models_extra/olmoe",
                                             "models_extra/gpt_neox",
                                             "models_extra/gpt_neox_in_turn",
                                             "models_extra/phi3",
                                             "models_extra/starcoder2",
                                             "models_extra/starcoder2_window"};

void expect_same_parameters(const LayerInfo& found, const LayerInfo& expected) {
  ASSERT_EQ(found.parameters.size(), expected.parameters.size()) << expected.name;
  for (std::size_t i = 0; i < found.parameters.size(); ++i) {
    EXPECT_EQ(found.parameters[i].name, expected.parameters[i].name);
    EXPECT_EQ(found.parameters[i].shape, expected.parameters[i].shape) << expected.name;
    EXPECT_EQ(found.parameters[i].tied_to, expected.parameters[i].tied_to) << expected.name;
    EXPECT_EQ(found.parameters[i].dtype, expected.parameters[i].dtype) << expected.name;
  }
}

TEST(DescribeFamiliesTest, LayersParametersAndValuesAreThoseOfTheFamily) {
  const MicrobatchShape shape{5, kLength};
  for (const std::string& model : kDescribed) {
    const ModelSpec spec = plain_spec_of(model), found = measured(spec);
    ASSERT_EQ(found.layers.size(), spec.layers.size()) << model;
    for (std::size_t i = 0; i < found.layers.size(); ++i) {
      const LayerInfo &layer = found.layers[i], &expected = spec.layers[i];
      EXPECT_EQ(layer.name, expected.name);
      EXPECT_EQ(layer.role, expected.role) << layer.name;
      EXPECT_EQ(layer.reads, expected.reads) << layer.name;
      expect_same_parameters(layer, expected);
      ASSERT_EQ(layer.writes.size(), expected.writes.size());
      for (std::size_t k = 0; k < layer.writes.size(); ++k) {
        EXPECT_EQ(layer.writes[k].name, expected.writes[k].name) << layer.name;
        EXPECT_EQ(layer.writes[k].sizes_at(shape), expected.writes[k].sizes_at(shape))
            << layer.name;
        EXPECT_EQ(layer.writes[k].dtype, expected.writes[k].dtype) << layer.name;
      }
    }
    EXPECT_EQ(found.num_parameters(), spec.num_parameters());
  }
}

TEST(DescribeFamiliesTest, OperationsAreThoseOfTheFamily) {
  for (const std::string& model : kDescribed) {
    const ModelSpec spec = plain_spec_of(model), found = measured(spec);
    for (std::size_t i = 0; i < found.layers.size(); ++i) {
      const LayerCost &cost = found.layers[i].cost, &expected = spec.layers[i].cost;
      for (const std::int64_t rows : {2, 7}) {
        const MicrobatchShape shape{rows, kLength};
        const std::string what = model + " " + spec.layers[i].name;
        EXPECT_EQ(cost.forward_flops.at(shape), expected.forward_flops.at(shape)) << what;
        EXPECT_EQ(cost.input_flops.at(shape), expected.input_flops.at(shape)) << what;
        EXPECT_EQ(cost.weight_flops.at(shape), expected.weight_flops.at(shape)) << what;
      }
    }
  }
}

// A layer's result counts in the layer that saves it, so the result of the last norm counts in the
// head. The families count that result in the norm and the loss in the head.
TEST(DescribeFamiliesTest, KeptBytesAreThoseOfTheFamily) {
  const MicrobatchShape shape{3, kLength};
  const auto kept = [&](const LayerInfo& layer) { return layer.cost.after_forward.at(shape); };
  for (const std::string& model : kDescribed) {
    const ModelSpec spec = plain_spec_of(model), found = measured(spec);
    const std::size_t norm = spec.layers.size() - 2, head = norm + 1;
    for (std::size_t i = 0; i < norm; ++i)
      EXPECT_EQ(kept(found.layers[i]), kept(spec.layers[i])) << model << " " << spec.layers[i].name;
    const double loss = static_cast<double>(shape.tokens() * (4 * spec.vocab_size + 8));
    EXPECT_EQ(kept(found.layers[norm]) + kept(found.layers[head]),
              kept(spec.layers[norm]) + kept(spec.layers[head]) - loss)
        << model;
  }
}

// All rows of a microbatch share one table of casted sines and cosines. The families count one
// table per row.
TEST(DescribeFamiliesTest, KeptBytesAreNearThoseOfTheFamilyInHalfPrecision) {
  const MicrobatchShape shape{3, kLength};
  const auto kept = [&](const LayerInfo& layer) { return layer.cost.after_forward.at(shape); };
  for (const Precision& precision :
       {Precision{.parameters = "bfloat16"}, Precision{.parameters = "float16"},
        Precision{.products = "bfloat16"}}) {
    const bool whole = !precision.casts();
    for (const std::string& model : kDescribed) {
      const ModelSpec spec =
          read_model_spec(std::string(SLUICE_TEST_DATA) + "/reference/" + model, precision);
      const AutocastScope autocast(whole ? std::nullopt
                                         : std::optional<at::ScalarType>(at::kBFloat16));
      const at::ScalarType half = precision.parameters == "float16" ? at::kHalf : at::kBFloat16;
      const ModelSpec found = measured(spec, {.dtype = whole ? half : at::kFloat});
      const std::size_t norm = spec.layers.size() - 2, head = norm + 1;
      for (std::size_t i = 0; i < norm; ++i) {
        const std::string what = model + " " + spec.layers[i].name;
        EXPECT_NEAR(kept(found.layers[i]), kept(spec.layers[i]), 0.03 * kept(spec.layers[i]))
            << what;
        // The families do not count copies of biases.
        const double casted = spec.layers[i].cost.casted_weights;
        EXPECT_NEAR(found.layers[i].cost.casted_weights, casted, 0.08 * casted) << what;
        EXPECT_EQ(found.layers[i].writes[0].dtype, spec.layers[i].writes[0].dtype) << what;
        expect_same_parameters(found.layers[i], spec.layers[i]);
      }
      const double loss = static_cast<double>(shape.tokens() * (4 * spec.vocab_size + 8));
      EXPECT_EQ(kept(found.layers[norm]) + kept(found.layers[head]),
                kept(spec.layers[norm]) + kept(spec.layers[head]) - loss)
          << model;
      const std::string logits = whole ? precision.parameters : precision.products;
      EXPECT_EQ(found.layers[head].writes[0].dtype, logits);
      EXPECT_EQ(spec.layers[head].writes[0].dtype, logits);
    }
  }
}

TEST(DescribeFamiliesTest, BytesThatWaitForTheWeightsAreNearThoseOfLlama) {
  const MicrobatchShape shape{3, kLength};
  for (const std::string& model : kDescribed) {
    const ModelSpec spec = plain_spec_of(model);
    if (spec.family != "llama") continue;
    const ModelSpec found = measured(spec);
    const double expected = spec.layers[1].cost.after_input.at(shape);
    EXPECT_NEAR(found.layers[1].cost.after_input.at(shape), expected, 0.05 * expected) << model;
  }
}

// Only the first block trains. Later blocks pass gradients on, and earlier layers have no backward.
TEST(DescribeFamiliesTest, FrozenLayersKeepWhatTheFamilySaysOfThem) {
  const MicrobatchShape shape{3, kLength};
  for (const std::string& model : kDescribed) {
    const ModelSpec all = plain_spec_of(model);
    const ModelSpec spec =
        plan_pipeline(all, {.seq_len = kLength, .trainable = {all.layers[1].name + ".*"}}).model;
    const ModelSpec found = measured(spec);
    const auto kept = [&](const ModelSpec& of, std::size_t i) {
      return of.layers[i].cost.after_forward.at(shape);
    };
    EXPECT_EQ(kept(found, 0), 0) << model;
    EXPECT_EQ(kept(spec, 0), 0) << model;
    EXPECT_EQ(kept(found, 1), kept(spec, 1)) << model;  // the gradient of its input is not needed
    EXPECT_EQ(kept(found, 2), kept(spec, 2)) << model;
    EXPECT_LT(kept(spec, 2), kept(all, 2)) << model;
    EXPECT_EQ(found.layers[2].cost.after_input.at(shape), 0) << model;
    EXPECT_EQ(found.layers[2].cost.weight_flops.at(shape), 0) << model;
    for (std::size_t i = 0; i < spec.layers.size(); ++i)
      EXPECT_EQ(found.layers[i].trains(), i == 1) << model << " " << spec.layers[i].name;
    const double alone = spec.layers[2].cost.in_forward.at(shape);
    EXPECT_NEAR(found.layers[2].cost.in_forward.at(shape), alone, 0.15 * alone) << model;
  }
}

TEST(DescribeFamiliesTest, LayersThatTrainInPartKeepWhatTheirOperatorsSay) {
  const MicrobatchShape shape{3, kLength};
  for (const std::string& model : kDescribed) {
    const ModelSpec all = plain_spec_of(model);
    const std::string block = all.layers[1].name;
    std::set<std::string> patterns = {"*norm*", "*.ln_*"};
    for (const ParameterSpec& parameter : all.layers[1].parameters) {
      const bool of_expert = parameter.name.find(".experts.") != std::string::npos;
      if (!of_expert) patterns.insert(parameter.name);
    }
    for (const std::string& pattern : patterns) {
      const bool matches = std::any_of(
          all.layers[1].parameters.begin(), all.layers[1].parameters.end(),
          [&](const ParameterSpec& each) { return matches_pattern(pattern, each.name); });
      if (!matches) continue;
      const ModelSpec spec = plan_pipeline(all, {.seq_len = kLength, .trainable = {pattern}}).model;
      const ModelSpec found = measured(spec);
      for (std::size_t i = 0; i + 2 < spec.layers.size(); ++i) {
        const LayerCost &cost = found.layers[i].cost, &expected = spec.layers[i].cost;
        const std::string what = model + " " + pattern + " " + spec.layers[i].name;
        EXPECT_EQ(cost.after_forward.at(shape), expected.after_forward.at(shape)) << what;
        EXPECT_EQ(cost.forward_flops.at(shape), expected.forward_flops.at(shape)) << what;
        EXPECT_EQ(cost.weight_flops.at(shape), expected.weight_flops.at(shape)) << what;
      }
    }
  }
}

TEST(DescribeFamiliesTest, ADescriptionIsSplitAndPredictedAsTheFamilyIs) {
  const ModelSpec spec = plain_spec_of("models/llama_untied"), found = measured(spec);
  PartitionOptions options;
  options.num_ranks = 2;
  const Partition partition = make_partition(found, options);
  const Partition expected = make_partition(spec, options);
  const MicrobatchShape shape{2, kLength};
  std::vector<ActivationBytes> stages, expected_stages;
  for (int s = 0; s < partition.num_stages(); ++s) {
    const auto i = static_cast<std::size_t>(s);
    EXPECT_EQ(partition.stages[i].modules, expected.stages[i].modules);
    EXPECT_EQ(partition.stages[i].num_parameters, expected.stages[i].num_parameters);
    stages.push_back(stage_activations(found, partition.stages[i], shape));
    expected_stages.push_back(stage_activations(spec, expected.stages[i], shape));
  }
  const Schedule schedule = make_schedule("1F1B", {2, 1, 4});
  const std::vector<Action> first = to_program(schedule).ranks[0];
  const auto kept = static_cast<double>(row_activations(first, expected_stages).kept);
  EXPECT_EQ(static_cast<double>(row_activations(first, stages).kept), kept);
  EXPECT_EQ(stage_shapes(found, partition, 2, kLength)[1].output,
            stage_shapes(spec, expected, 2, kLength)[1].output);
}

}  // namespace
}  // namespace sluice
