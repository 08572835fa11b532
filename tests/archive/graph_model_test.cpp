#include "archive/graph_model.h"

#include <gtest/gtest.h>

#include "archive/written_graph.h"
#include "plan/predict/activation_memory.h"
#include "sluice/partition.h"
#include "support/expect_error.h"

namespace sluice::detail {
namespace {

using test::error_of;
using test::in_block;
using test::SmallDecoder;
using test::Value;

const MicrobatchShape kShape = {2, 16};
constexpr double kTokens = 2 * 16;

std::shared_ptr<const GraphOfModel> archive(const std::string& name) {
  return graph_of_model(read_exported_graph(SLUICE_TEST_DATA "/command/data/" + name), {});
}

TEST(GraphModelTest, ParametersInputsAndValuesAreThoseOfTheGraph) {
  SmallDecoder graph;
  graph.graph.facts.ties = {{"head.weight", "words.weight"}};
  graph.graph.facts.stored = {{"blocks.0.weight", "layers.0.w"}};
  graph.graph.facts.config = R"({"model_type": "small", "vocab_size": 16})";
  graph.graph.tensors[2].trainable = false;
  const ModelSpec spec = graph.described();
  EXPECT_EQ(spec.family, "small");
  EXPECT_EQ(spec.vocab_size, 16);
  EXPECT_EQ(spec.max_positions, 64);
  EXPECT_EQ(spec.num_parameters(), 16 * 4 + 2 * 4 * 4);
  ASSERT_EQ(spec.inputs.size(), 2u);
  EXPECT_EQ(spec.inputs[1].name, "labels");
  EXPECT_EQ(spec.inputs[1].sizes_at(kShape), (std::vector<std::int64_t>{2, 16}));
  ASSERT_EQ(spec.layers.size(), 4u);
  EXPECT_EQ(spec.layers[1].parameters[0].stored_as, "layers.0.w");
  EXPECT_FALSE(spec.layers[2].parameters[0].trainable);
  EXPECT_EQ(spec.layers[3].parameters[0].tied_to, "words.weight");
  EXPECT_EQ(spec.layers[1].writes[0].sizes_at({3, 5}), (std::vector<std::int64_t>{3, 5, 4}));
}

TEST(GraphModelTest, SizesOutsideOfWhatWasExportedAreRefused) {
  SmallDecoder graph;
  graph.module.ranges = {{"s0", 2, 8}, {"s1", 2, 64}};
  const Error rows = error_of([&] { graph.described({1, 16}); });
  EXPECT_EQ(rows.kind(), ErrorKind::kUsage);
  EXPECT_EQ(rows.fact(), "the graph was exported for microbatches from 2 to 8, not for 1");
  EXPECT_EQ(rows.where(), "`microbatch_size`");
  const Error length = error_of([&] { graph.described({2, 65}); });
  EXPECT_EQ(length.fact(), "the graph was exported for sequences from 2 to 64, not for 65");
  EXPECT_EQ(length.where(), "`seq_len`");
  EXPECT_EQ(graph.described({8, 64}).layers.size(), 4u);
  graph.module.ranges[0].most = INT64_MAX;
  EXPECT_EQ(error_of([&] {
              graph.described({1, 16});
            }).fact(),
            "the graph was exported for microbatches from 2 to any number, not for 1");
}

TEST(GraphModelTest, UnnamedSizesDefaultToTheExample) {
  GraphOfModel bounded = *archive("translation.pt2");
  for (const GraphFacts::Size& size : bounded.graph.facts.sizes)
    for (SizeRange& range : bounded.graph.training.ranges)
      if (size.name == "decoder_length" && range.symbol == size.symbol) range.most = 4096;
  const auto model = std::make_shared<const GraphOfModel>(std::move(bounded));
  const auto length_of = [&](const std::map<std::string, std::int64_t>& sizes) {
    const GraphOptions options = {.sizes = sizes};
    const ModelSpec spec = describe_graph(model, options, {2, 6});
    return spec.inputs.at(1).sizes_at({2, 6}).at(1);
  };
  EXPECT_EQ(length_of({}), 5);
  EXPECT_EQ(length_of({{"decoder_length", 9}}), 9);
  const Error unknown = error_of([&] { length_of({{"decoder_lenght", 9}}); });
  EXPECT_EQ(unknown.fact(), "the graph has no size 'decoder_lenght'");
  EXPECT_EQ(unknown.remedy(), "did you mean 'decoder_length'?");
  EXPECT_EQ(unknown.where(), "`graph_sizes`");
  const Error outside = error_of([&] { length_of({{"decoder_length", 1 << 20}}); });
  EXPECT_EQ(outside.fact(),
            "the graph was exported for decoder_length from 1 to 4096, not for 1048576");
  const Error rows = error_of([&] { length_of({{"rows", 2}}); });
  EXPECT_EQ(rows.fact(), "the size 'rows' of the graph is that of a microbatch");
  EXPECT_EQ(rows.remedy(), "set `microbatch_size`");
}

TEST(GraphModelTest, SizesAreWrittenByName) {
  EXPECT_EQ(sizes_by_name({"decoder_length=64", "patches=0"}),
            (std::map<std::string, std::int64_t>{{"decoder_length", 64}, {"patches", 0}}));
  for (const char* text : {"decoder_length", "=3", "a=", "a=-1", "a=1.5", "a=3 ", "", "a=b=3"}) {
    const Error error = error_of([&] { sizes_by_name({text}); });
    EXPECT_EQ(error.fact(), "'" + std::string(text) + "' is not a size");
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
  EXPECT_EQ(error_of([] { sizes_by_name({"a=1", "a=1"}); }).fact(), "the size 'a' is given twice");
}

TEST(GraphModelTest, TheLossIsAResultOfTheGraph) {
  SmallDecoder graph;
  const auto with_loss = [&](const std::string& name) {
    return graph.model({.cuts = {}, .loss_output = name})->loss;
  };
  EXPECT_TRUE(with_loss("").is_causal());
  const Error unknown = error_of([&] { with_loss("logit"); });
  EXPECT_EQ(unknown.kind(), ErrorKind::kUsage);
  EXPECT_EQ(unknown.fact(), "the graph has no result 'logit'");
  EXPECT_EQ(unknown.where(), "`loss_output`");
  EXPECT_EQ(unknown.remedy(), "did you mean 'logits'?");
  graph.module.outputs.front().name = "scores";
  EXPECT_EQ(error_of([&] { with_loss(""); }).remedy(),
            "set `loss_output` to one of its results, such as 'scores'");
}

double kept(const ModelSpec& spec, std::size_t layer) {
  return spec.layers.at(layer).cost.after_forward.at(kShape);
}

TEST(GraphModelTest, ALayerKeepsWhatItsNodesNeedOnce) {
  const ModelSpec spec = SmallDecoder().described();
  // Kept: the input of the product, and the output of relu.
  EXPECT_EQ(kept(spec, 1), 4 * kTokens * (4 + 4));
  EXPECT_EQ(spec.layers[1].cost.forward_flops.at(kShape), 2 * kTokens * 4 * 4);
}

TEST(GraphModelTest, LayerInputsNeedGradients) {
  // The layer squares its input, and no trained parameter comes before it.
  SmallDecoder graph;
  graph.node_of("h0").target = "aten.pow.Tensor_Scalar";
  graph.node_of("h0").arguments = {graph.node_of("r0").arguments.front(), {"exponent", {}}};
  graph.node_of("h0").arguments[1].second.kind = GraphArgument::Kind::kInt;
  graph.node_of("h0").arguments[1].second.integer = 2;
  graph.feed("h0", "x0");
  const ModelSpec spec = graph.described();
  EXPECT_EQ(spec.layers[1].parameters.size(), 0u);
  EXPECT_EQ(kept(spec, 1), 4 * kTokens * (4 + 4));
}

TEST(GraphModelTest, TheCausalLossIsCountedWhereTheLogitsAre) {
  SmallDecoder graph;
  const double of_logits = kept(graph.described(), 3);
  graph.graph.facts.loss_output = "loss";
  graph.add({{"head", "m.Head"}}, "aten.sum.default", {{"self", Value{"logits_value"}}}, "sum", {});
  graph.result("loss", "sum");
  const double without = kept(graph.described(), 3);
  // Kept: log-probabilities, targets, and the weight of the loss.
  EXPECT_EQ(of_logits - without, kTokens * (4 * 16 + 8) + 4);
}

TEST(GraphModelTest, UnderAutocastValuesLeaveInTheTypeThatTheyHave) {
  SmallDecoder graph;
  graph.feed("r0", "h0");
  // The first block ends with a product, the second with a sum.
  graph.node_of("x1").target = "aten.linear.default";
  graph.node_of("x1").arguments = graph.node_of("h0").arguments;
  graph.node_of("x1").arguments[0].first = "input";
  graph.feed("x1", "r0");
  const auto types = [&](const std::string& products) {
    const ModelSpec spec = graph.described(kShape, {.products = products});
    return spec.layers[1].writes[0].dtype + " " + spec.layers[2].writes[0].dtype;
  };
  EXPECT_EQ(types(""), "float32 float32");
  EXPECT_EQ(types("bfloat16"), "bfloat16 bfloat16");
}

TEST(GraphModelTest, GradientsOfASkipWaitWhileLayersBetweenRunBack) {
  const auto on_entry = [](bool skips) {
    SmallDecoder graph(4);
    if (skips) {
      graph.add(in_block(3), "aten.add.Tensor", {{"self", Value{"x4"}}, {"other", Value{"x1"}}},
                "skipped");
      graph.move_last(1);
      graph.feed("logits_value", "skipped");
    }
    const ModelSpec spec = graph.described();
    StageContent stage;
    stage.layers = {2, 3};
    return stage_activations(spec, stage, kShape).on_entry;
  };
  EXPECT_EQ(on_entry(true) - on_entry(false), 4 * kTokens * 4);
}

TEST(GraphModelTest, FreeLayersCountInMemoryAlone) {
  SmallDecoder graph;
  graph.buffer("table", {"4"});
  graph.add(in_block(0), "aten.cos.default", {{"self", Value{"table"}}}, "angles", {"4"});
  graph.move_last(7);
  graph.add(in_block(0), "aten.mul.Tensor", {{"self", Value{"x0"}}, {"other", Value{"angles"}}},
            "turned");
  graph.move_last(7);
  graph.feed("h0", "turned");
  const ModelSpec spec = graph.described();
  ASSERT_EQ(spec.free_layers.size(), 1u);
  EXPECT_EQ(spec.free_layers[0].cost.forward_flops.at(kShape), 0);
  EXPECT_EQ(spec.free_layers[0].cost.after_forward.at(kShape), 4 * 4);
  EXPECT_EQ(spec.free_layers_of({1}), std::vector<int>{0});
  EXPECT_EQ(spec.free_layers_of({0, 2, 3}), std::vector<int>{});
}

TEST(GraphModelTest, AnArchiveSaysWhetherItHasWeights) {
  EXPECT_TRUE(has_weights(archive("decoder.pt2")->graph));
  EXPECT_FALSE(has_weights(SmallDecoder().graph));
}

}  // namespace
}  // namespace sluice::detail
