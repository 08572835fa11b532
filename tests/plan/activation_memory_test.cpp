#include "plan/predict/activation_memory.h"

#include <gtest/gtest.h>

#include "base/saturate.h"
#include "plan/trainable.h"
#include "sluice/model_spec.h"

namespace sluice::activation_memory_test {
namespace {

ModelSpec llama(const std::string& attention_dropout = "0") {
  return parse_model_spec(R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 8,
    "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "attention_dropout": )" +
                              attention_dropout + "}",
                          "config.json", {.fused = false});
}

TEST(ActivationMemoryTest, CountsWhatADecoderLayerKeepsForEveryToken) {
  const ModelSpec model = llama();
  const ActivationBytes one = layer_activations(model.layers[1], {1, 1});
  // Numbers kept per token. The two norms keep 3 x 8 + 1 each. Attention keeps the query (8), two
  // outputs (2 x 8), key and value (4 each) and one log-sum per head. The MLP keeps 4 x 12.
  EXPECT_EQ(one.after_forward, 4 * (2 * 25 + 24 + 8 + 2 + 48));
  const ActivationBytes many = layer_activations(model.layers[1], {3, 5});
  EXPECT_EQ(many.after_forward, 15 * one.after_forward);
  EXPECT_EQ(many.after_input, 15 * one.after_input);
}

TEST(ActivationMemoryTest, AttentionDropoutCostsTheSquareOfTheLength) {
  const auto kept = [](const ModelSpec& model, std::int64_t length) {
    return layer_activations(model.layers[1], {1, length}).after_forward;
  };
  const ModelSpec without = llama(), with = llama("0.1");
  EXPECT_EQ(kept(without, 64), 2 * kept(without, 32));
  EXPECT_EQ(kept(with, 64) - 2 * kept(with, 32), 4 * 3 * 2 * (64 * 64 - 2 * 32 * 32));
}

TEST(ActivationMemoryTest, HeadsOfLargeVocabulariesKeepNoLogits) {
  const auto head = [](int vocabulary, const Precision& precision) {
    return parse_model_spec(R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 12,
      "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": )" +
                                std::to_string(vocabulary) + "}",
                            "config.json", precision)
        .layers.back();
  };
  const LayerInfo large = head(32768, {.loss_chunks = LossChunks::kAuto});
  EXPECT_EQ(large.reads, (std::vector<std::string>{"hidden", "labels"}));
  EXPECT_EQ(large.writes.front().name, "loss");
  const ActivationBytes bytes = layer_activations(large, {3, 5});
  EXPECT_EQ(bytes.after_forward, 15 * (2 * 4 * 8 + 8));
  EXPECT_EQ(bytes.on_entry, 15 * 4 * 2048);
  EXPECT_EQ(large.cost.forward_flops.per_token + large.cost.input_flops.per_token +
                large.cost.weight_flops.per_token,
            4 * 2.0 * 32768 * 8);

  EXPECT_EQ(head(100, {.loss_chunks = LossChunks::kOn}).writes.front().name, "loss");
  for (const auto& [vocabulary, precision] :
       {std::pair<int, Precision>{32767, {.loss_chunks = LossChunks::kAuto}},
        {200000, {}},
        {200000, {.fused = false, .loss_chunks = LossChunks::kOn}},
        {200000, {.products = "bfloat16", .loss_chunks = LossChunks::kOn}},
        {200000, {.parameters = "bfloat16", .loss_chunks = LossChunks::kOn}}}) {
    const LayerInfo whole = head(vocabulary, precision);
    EXPECT_EQ(whole.writes.front().name, "logits") << vocabulary;
    EXPECT_GT(layer_activations(whole, {1, 1}).after_forward, 4 * vocabulary);
  }
}

TEST(ActivationMemoryTest, SizesThatCannotBeCountedStayTheLargestNumber) {
  const ModelSpec model = llama("0.1");
  const MicrobatchShape huge = {1 << 20, 1 << 30};
  const ActivationBytes layer = layer_activations(model.layers[1], huge);
  EXPECT_EQ(layer.after_forward, kTooMuch);
  StageContent stage;
  stage.layers = {0, 1, 2};
  const ActivationBytes sum = stage_activations(model, stage, huge);
  EXPECT_EQ(sum.after_forward, kTooMuch);
  using A = Action;
  const RowActivations row =
      row_activations({A::forward(0, 0), A::forward(0, 1), A::backward_input(0, 0),
                       A::backward_weight(0, 0), A::backward(0, 1)},
                      {sum});
  EXPECT_EQ(row.kept, kTooMuch);
  EXPECT_EQ(row.peak, kTooMuch);
}

TEST(ActivationMemoryTest, AForwardBelowWhatIsTrainedNeedsWhatItsLargestLayerNeeds) {
  ModelSpec model;
  for (const double kept : {0.0, 0.0, 30.0, 0.0}) {
    LayerInfo& layer = model.layers.emplace_back();
    layer.cost.after_forward.constant = kept;
    layer.cost.in_forward.constant = model.layers.size() == 4 ? 50 : 100;
  }
  StageContent stage;
  stage.layers = {0, 1, 2};
  const auto peak = [&] {
    const ActivationBytes bytes = stage_activations(model, stage, {1, 1});
    return row_activations({Action::forward(0, 0)}, {bytes}).peak;
  };
  EXPECT_EQ(peak(), 100);  // peaks before the third layer keeps anything
  stage.layers = {0, 1, 2, 3};
  EXPECT_EQ(peak(), 100);
  stage.layers = {2, 3};
  EXPECT_EQ(peak(), 30 + 50);
  stage.layers = {0, 1};
  stage.backward = StageBackward::kNone;
  EXPECT_EQ(peak(), 100);
}

TEST(ActivationMemoryTest, FollowsTheRowOfTheRank) {
  const std::vector<ActivationBytes> stages = {
      {.after_forward = 100, .after_input = 60, .on_entry = 10},
      {.after_forward = 40, .after_input = 40, .on_entry = 5, .at_end = 90}};
  auto peak = [&](const std::vector<Action>& row) {
    const RowActivations result = row_activations(row, stages);
    return std::pair(result.kept, result.peak);
  };
  using A = Action;
  // Bytes held after each action: 100, 200, 100, 0.
  EXPECT_EQ(peak({A::forward(0, 0), A::forward(0, 1), A::backward(0, 0), A::backward(0, 1)}),
            (std::pair<std::int64_t, std::int64_t>(200, 210)));
  // Bytes held after each action: 100, 60, 160, 100, 60, 0.
  EXPECT_EQ(peak({A::forward(0, 0), A::backward_input(0, 0), A::forward(0, 1),
                  A::backward_weight(0, 0), A::backward_input(0, 1), A::backward_weight(0, 1)}),
            (std::pair<std::int64_t, std::int64_t>(160, 170)));
  // The backward of stage 1 needs its 90 bytes after the 40 bytes that its forward kept are freed.
  EXPECT_EQ(peak({A::forward(0, 0), A::forward(1, 0), A::backward(1, 0), A::backward(0, 0)}),
            (std::pair<std::int64_t, std::int64_t>(140, 190)));
}

TEST(ActivationMemoryTest, MicrobatchesShareTheCastedWeightsOfTheirStage) {
  ActivationBytes first, second;
  first.after_forward = second.after_forward = 10;
  first.casted_weights = 100;
  second.casted_weights = 1000;
  const auto peak = [&](const std::vector<Action>& row) {
    return row_activations(row, {first, second}).peak;
  };
  using A = Action;
  EXPECT_EQ(peak({A::forward(0, 0), A::forward(0, 1), A::backward(0, 0), A::backward(0, 1)}), 120);
  EXPECT_EQ(peak({A::forward(0, 0), A::backward(0, 0), A::forward(1, 0), A::backward(1, 0)}), 1110);
  const A reshard = A::make(ActionKind::kReshard, 0), unshard = A::make(ActionKind::kUnshard, 0);
  EXPECT_EQ(peak({A::forward(0, 0), reshard, A::forward(1, 0), A::backward(1, 0), unshard,
                  A::backward(0, 0)}),
            1110);  // the backward casts the weights of stage 0 again
  EXPECT_EQ(peak({A::forward(0, 0), A::backward(0, 0), reshard, A::forward(1, 0)}), 1010);
}

TEST(ActivationMemoryTest, CastedWeightsOfFrozenLayersCountToo) {
  const auto model_of = [](const std::vector<std::string>& trainable) {
    ModelSpec model = parse_model_spec(R"({"model_type": "llama", "vocab_size": 100,
      "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
      "num_key_value_heads": 1})",
                                       "config.json", {.products = "bfloat16"});
    detail::set_trainable(model, trainable);
    return model;
  };
  const double block = 2.0 * (8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 12);
  for (const ModelSpec& model :
       {model_of({"*"}), model_of({"lm_head*"}), model_of({"*layers.0*"})}) {
    EXPECT_EQ(model.layers[0].cost.casted_weights, 0);
    EXPECT_EQ(model.layers[1].cost.casted_weights, block);
    EXPECT_EQ(model.layers[2].cost.casted_weights, block);
    EXPECT_EQ(model.layers.back().cost.casted_weights, 2.0 * 8 * 100);
  }
}

}  // namespace
}  // namespace sluice::activation_memory_test
