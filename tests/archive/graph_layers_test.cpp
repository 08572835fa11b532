#include "archive/graph_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "archive/written_graph.h"
#include "sluice/partition.h"
#include "support/expect_error.h"

namespace sluice::detail {
namespace {

using test::error_of;
using test::in_act;
using test::in_block;
using test::SmallDecoder;
using test::Value;
using test::WrittenGraph;
using Names = std::vector<std::string>;

Names names_of(const std::vector<GraphLayer>& layers) {
  Names names;
  for (const GraphLayer& layer : layers) names.push_back(layer.name);
  return names;
}

Names layers_of_graph(const WrittenGraph& graph, const GraphCuts& cuts = {}) {
  return names_of(graph.model({.cuts = cuts})->layers.layers);
}

Names values_of(const GraphOfModel& model, const std::vector<int>& values) {
  Names names;
  for (const int value : values)
    names.push_back(model.layers.value_names[static_cast<std::size_t>(value)]);
  return names;
}

const Names kLayers = {"words", "blocks.0", "blocks.1", "head"};

TEST(GraphLayersTest, ElementsOfTheOutermostListsAreBlocks) {
  SmallDecoder graph;
  for (test::GraphNode& node : graph.module.nodes)
    if (node.modules.size() == 3)
      node.modules.push_back({"blocks.0.act.parts.3", "blocks.0.act.parts.3", "m.Part"});
  const auto model = graph.model();
  EXPECT_EQ(names_of(model->layers.layers), kLayers);
  std::vector<LayerRole> roles;
  for (const GraphLayer& layer : model->layers.layers) roles.push_back(layer.role);
  EXPECT_EQ(roles, (std::vector{LayerRole::kEmbedding, LayerRole::kBlock, LayerRole::kBlock,
                                LayerRole::kHead}));
  const GraphLayer& block = model->layers.layers[1];
  EXPECT_EQ(block.class_name, "m.Block");
  EXPECT_EQ(block.nodes.size(), 3u);
  EXPECT_EQ(values_of(*model, block.reads), Names{"x0"});
  EXPECT_EQ(values_of(*model, block.writes), Names{"x1"});
  EXPECT_EQ(model->layers.outputs, Names{"logits"});
}

TEST(GraphLayersTest, LayerClassSelectsBlocks) {
  const SmallDecoder graph;
  for (const char* name : {"Block", "m.Block"})
    EXPECT_EQ(layers_of_graph(graph, {.layer_class = name, .modules = {}}), kLayers) << name;
  EXPECT_EQ(layers_of_graph(graph, {.layer_class = "Act", .modules = {}}),
            (Names{"words", "blocks.0.act", "blocks.1.act", "head"}));
  const Error unknown =
      error_of([&] { layers_of_graph(graph, {.layer_class = "Blok", .modules = {}}); });
  EXPECT_EQ(unknown.kind(), ErrorKind::kUsage);
  EXPECT_EQ(unknown.fact(), "the graph has no module of class 'Blok'");
  EXPECT_EQ(unknown.remedy(), "did you mean 'Block'?");
  EXPECT_EQ(
      error_of([&] { layers_of_graph(graph, {.layer_class = "lock", .modules = {}}); }).kind(),
      ErrorKind::kUsage);
}

TEST(GraphLayersTest, EveryConventionSplitsBlocksOfAGraphAsThoseOfAFamily) {
  SmallDecoder written(7);
  // Renames the modules to names that all conventions recognize, and adds a norm.
  written.parameter("model.norm.weight", {4});
  written.add({{"norm", "m.Norm"}}, "aten.mul.Tensor",
              {{"self", Value{"x7"}}, {"other", Value{"model.norm.weight"}}}, "normed");
  written.move_last(1);
  written.feed("logits_value", "normed");
  for (test::GraphNode& node : written.module.nodes) {
    for (ModuleCall& call : node.modules) {
      if (call.path == "words") call.key = call.path = "model.embed_tokens";
      if (call.path == "norm") call.key = call.path = "model.norm";
      if (call.path == "head") call.key = call.path = "lm_head";
      if (call.path.starts_with("blocks"))
        call.key = call.path = "model.layers" + call.path.substr(6);
    }
  }
  const ModelSpec graph = written.described(), native = model_spec_of_blocks(7);
  const auto split = [](const ModelSpec& model, Convention convention, int ranks) {
    PartitionOptions options;
    options.convention = convention;
    options.num_ranks = ranks;
    std::vector<Names> modules;
    for (const StageContent& stage : make_partition(model, options).stages)
      modules.push_back(stage.modules);
    return modules;
  };
  for (const std::string& name : partition_conventions()) {
    const Convention convention = parse_kind(name, Convention::kSluice);
    for (const int ranks : {2, 3, 4})
      EXPECT_EQ(split(graph, convention, ranks), split(native, convention, ranks)) << name << ranks;
  }
  EXPECT_NE(split(graph, Convention::kNeuronx, 3), split(graph, Convention::kSluice, 3));
}

TEST(GraphLayersTest, ModulesThatAreNamedAreLayersOfTheirOwn) {
  const SmallDecoder graph;
  EXPECT_EQ(layers_of_graph(graph, {.layer_class = {}, .modules = {"blocks.0.act"}}),
            (Names{"words", "blocks.0", "blocks.0.act", "blocks.0@1", "blocks.1", "head"}));
  // A name that matches no node is not an error here; the caller checks names.
  EXPECT_EQ(layers_of_graph(graph, {.layer_class = {}, .modules = {"blocks.7"}}), kLayers);
  const auto model = graph.model({.cuts = {.layer_class = {}, .modules = {"blocks.0.act"}}});
  EXPECT_EQ(values_of(*model, model->layers.layers[2].reads), Names{"h0"});
  EXPECT_EQ(values_of(*model, model->layers.layers[3].reads), (Names{"x0", "r0"}));
}

TEST(GraphLayersTest, UnusedNodesAreOnNoStage) {
  SmallDecoder graph;
  graph.parameter("aside.weight", {16, 4});
  graph.linear({{"aside", "m.Head"}}, "x1", "aside.weight", "guess", {"s0", "s1", "16"});
  graph.move_last(4);
  graph.add(in_block(1), "aten.sum.default", {{"self", Value{"guess"}}}, "seen", {});
  graph.move_last(2);
  const auto model = graph.model();
  EXPECT_EQ(names_of(model->layers.layers), kLayers);
  EXPECT_EQ(model->layers.layers[2].nodes.size(), 3u);
  EXPECT_EQ(values_of(*model, model->layers.layers[1].writes), Names{"x1"});
  // Unread parameters stay listed, so that a checkpoint still contains them.
  EXPECT_EQ(model->layers.layers.back().unread, Names{"aside.weight"});
  // A write into a buffer is kept, because a checkpoint contains the buffer too.
  graph.buffer("table", {"16"});
  graph.add({{"aside", "m.Head"}}, "aten.copy_.default",
            {{"self", Value{"table"}}, {"src", Value{"guess"}}}, "written", {"16"});
  graph.move_last(5);
  EXPECT_EQ(layers_of_graph(graph), (Names{"words", "blocks.0", "aside", "blocks.1", "head"}));
}

// blocks.1 writes in place into a value of blocks.0, or into a view of that value.
SmallDecoder with_write(const std::string& view) {
  using Items = test::GraphBuilder::Items;
  SmallDecoder graph;
  if (view == "aten.view.default")
    graph.add(in_block(1), view, {{"self", Value{"x1"}}, {"size", Items{-1, 4}}}, "flat",
              {"s0*s1", "4"});
  if (view == "aten.as_strided.default") {
    graph.module.values[static_cast<std::size_t>(graph.find("x1"))].strides.resize(3);
    graph.add(in_block(1), view,
              {{"self", Value{"x1"}}, {"size", Items{2, 4}}, {"stride", Items{4, 1}}}, "flat",
              {"2", "4"});
  }
  if (!view.empty()) graph.move_last(4);
  graph.add(in_block(1), "aten.relu_.default", {{"self", Value{view.empty() ? "x1" : "flat"}}},
            "written");
  graph.move_last(4);
  return graph;
}

TEST(GraphLayersTest, ATensorAndALaterWriteIntoItAreOneLayer) {
  for (const std::string view : {"", "aten.view.default", "aten.as_strided.default"}) {
    const SmallDecoder graph = with_write(view);
    EXPECT_EQ(layers_of_graph(graph), (Names{"words", "blocks.0", "head"})) << view;
    for (const char* name : {"blocks.0", "blocks.1"}) {
      const Error error =
          error_of([&] { layers_of_graph(graph, {.layer_class = {}, .modules = {name}}); });
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << name;
      EXPECT_EQ(error.fact(),
                "the graph cannot be cut between 'blocks.0' and 'blocks.1': one writes in place to "
                "a value of the other, or both have one operator");
      EXPECT_EQ(error.remedy(), "name another module");
    }
  }
}

TEST(GraphLayersTest, AWriteWithinAModuleForbidsTheNameInside) {
  SmallDecoder graph;
  graph.node_of("r0").target = "aten.relu_.default";
  EXPECT_EQ(layers_of_graph(graph), kLayers);
  const Error error =
      error_of([&] { layers_of_graph(graph, {.layer_class = {}, .modules = {"blocks.0.act"}}); });
  EXPECT_NE(error.fact().find("between 'blocks.0' and 'blocks.0.act'"), std::string::npos)
      << error.what();
  // A write just behind a named module is rejected too. The error names that cut.
  SmallDecoder behind;
  behind.node_of("x1").target = "aten.add_.Tensor";
  behind.feed("x1", "r0");
  const Error later =
      error_of([&] { layers_of_graph(behind, {.layer_class = {}, .modules = {"blocks.0.act"}}); });
  EXPECT_NE(later.fact().find("between 'blocks.0.act' and 'blocks.0'"), std::string::npos)
      << later.what();
}

// x1 -> k -> view v. The operator writes into v, and the addition of blocks.1 then reads k.
SmallDecoder with_write(const std::string& target, const test::GraphBuilder::Arguments& arguments) {
  SmallDecoder graph;
  graph.add(in_block(0), "aten.mul.Scalar", {{"self", Value{"x1"}}, {"other", 10}}, "k");
  graph.move_last(4);
  graph.add(in_block(0), "aten.view.default", {{"self", Value{"k"}}}, "v");
  graph.move_last(4);
  graph.node(target, arguments, {}).modules = graph.module.nodes[4].modules;
  graph.module.nodes.back().results.push_back({false, {graph.tensor("unread", {"4"})}});
  graph.move_last(4);
  graph.node_of("x2").arguments.back().second.value = graph.find("k");
  return graph;
}

TEST(GraphLayersTest, WritesAreFoundByTheSchemasOfOperatorsNotByTheirNames) {
  const auto runs = [](const SmallDecoder& graph, const std::string& target) {
    const auto model = graph.model();
    const GraphLayer& block = model->layers.layers[1];
    return std::ranges::any_of(block.nodes, [&](int i) {
      return model->graph.training.nodes[static_cast<std::size_t>(i)].target == target;
    });
  };
  const test::GraphBuilder::Arguments into_view = {{"self", Value{"v"}}, {"other", 1}};
  for (const std::string target :
       {"aten.__irshift__.Scalar", "aten.__ilshift__.Scalar", "aten.__ixor__.Scalar",
        "aten.__iand__.Scalar", "aten.add_.Scalar"})
    EXPECT_TRUE(runs(with_write(target, into_view), target)) << target;
  // A list operator writes all tensors of its list. An out argument is written too.
  const std::string list = "aten._foreach_mul_.Scalar";
  EXPECT_TRUE(runs(with_write(list, {{"self", test::GraphBuilder::Items{Value{"h0"}, Value{"v"}}},
                                     {"scalar", 2}}),
                   list));
  const std::string out = "aten.add.out";
  EXPECT_TRUE(runs(
      with_write(out, {{"self", Value{"h0"}}, {"other", Value{"r0"}}, {"out", Value{"v"}}}), out));
  // An argument without a name may be the one that is written.
  EXPECT_TRUE(
      runs(with_write("aten.add_.Scalar", {{"", Value{"v"}}, {"", 1}}), "aten.add_.Scalar"));
  EXPECT_FALSE(runs(with_write("aten.add.Scalar", into_view), "aten.add.Scalar"));
}

TEST(GraphLayersTest, AWriteIntoALaterTensorOfAListMakesAllItsTensorsWritten) {
  SmallDecoder graph;
  graph.batch("table", {"4"});
  for (const std::string name : {"a0", "a1", "a2"})
    graph.add({}, "aten.mul.Scalar", {{"self", Value{"table"}}, {"other", 2}}, name, {"4"});
  graph.node(
      "aten._foreach_mul_.Scalar",
      {{"self", test::GraphBuilder::Items{Value{"a0"}, Value{"a1"}, Value{"a2"}}}, {"scalar", 0.5}},
      {});
  graph.add({{"head", "m.Head"}}, "aten.add.Tensor",
            {{"self", Value{"logits_value"}}, {"other", Value{"a2"}}}, "sum", {"s0", "s1", "16"});
  graph.module.outputs.clear();
  graph.result("logits", "sum");
  const auto model = graph.model();
  EXPECT_EQ(names_of(model->layers.free), Names{});
  EXPECT_EQ(model->layers.layers.back().nodes.size(), 6u);
}

TEST(GraphLayersTest, NodesThatReadAWrittenBufferOrInputAreOneLayer) {
  for (const bool is_buffer : {true, false}) {
    SmallDecoder graph;
    if (is_buffer)
      graph.buffer("count", {});
    else
      graph.batch("count", {});
    graph.add(in_block(0), "aten.add_.Scalar", {{"self", Value{"count"}}, {"other", 1}}, "more",
              {});
    graph.move_last(4);
    graph.add(in_block(1), "aten.mul.Tensor", {{"self", Value{"x2"}}, {"other", Value{"count"}}},
              "counted");
    graph.move_last(1);
    graph.feed("logits_value", "counted");
    EXPECT_EQ(layers_of_graph(graph), (Names{"words", "blocks.0", "head"}));
  }
}

TEST(GraphLayersTest, AGraphThatChangesAParameterIsRefused) {
  SmallDecoder graph;
  graph.add({{"words", "m.Words"}}, "aten.embedding_renorm_.default",
            {{"self", Value{"words.weight"}},
             {"indices", Value{"input_ids"}},
             {"max_norm", 1.0},
             {"norm_type", 2.0}},
            "renormed", {"16", "4"});
  const Error error = error_of([&] { graph.model(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "the graph changes the parameter 'words.weight' in place");
  EXPECT_EQ(error.where(), "model.pt2, node 'renormed' of module 'words'");
}

TEST(GraphLayersTest, ARunningStatisticIsNotWrittenInEvaluation) {
  const auto layers_with = [](bool is_training) {
    SmallDecoder graph;
    graph.buffer("mean", {"4"});
    for (const int i : {0, 1}) {
      const std::string n = std::to_string(i);
      graph.add(in_block(i), "aten.batch_norm.default",
                {{"input", Value{"x" + std::to_string(i + 1)}},
                 {"running_mean", Value{"mean"}},
                 {"training", is_training}},
                "normed" + n);
      graph.move_last(i == 0 ? 4 : 1);
      if (i == 0) graph.feed("h1", "normed0");
      if (i == 1) graph.feed("logits_value", "normed1");
    }
    return layers_of_graph(graph);
  };
  EXPECT_EQ(layers_with(false), kLayers);
  EXPECT_EQ(layers_with(true), (Names{"words", "blocks.0", "head"}));
}

TEST(GraphLayersTest, AHigherOrderOperatorStaysWhole) {
  SmallDecoder graph;
  graph.node_of("x1").higher_order = 0;
  graph.node_of("h1").higher_order = 0;
  EXPECT_EQ(layers_of_graph(graph), (Names{"words", "blocks.0", "head"}));
  EXPECT_EQ(error_of([&] {
              layers_of_graph(graph, {.layer_class = {}, .modules = {"blocks.1"}});
            }).kind(),
            ErrorKind::kUsage);
  SmallDecoder apart;
  apart.node_of("x1").higher_order = 0;
  apart.node_of("h1").higher_order = 1;
  EXPECT_EQ(layers_of_graph(apart), kLayers);
}

TEST(GraphLayersTest, RejectsDataDependentNumberAcrossCut) {
  SmallDecoder graph;
  graph.number("n");
  test::GraphNode& item = graph.node("aten.item.default", {{"self", Value{"x0"}}}, {"n"});
  item.modules = graph.node_of("x1").modules;
  std::rotate(graph.module.nodes.begin() + 4, graph.module.nodes.end() - 1,
              graph.module.nodes.end());
  graph.node_of("r1").arguments.push_back({"n", graph.node_of("r1").arguments.front().second});
  graph.node_of("r1").arguments.back().second.value = graph.find("n");
  EXPECT_EQ(layers_of_graph(graph), (Names{"words", "blocks.0", "head"}));
}

TEST(GraphLayersTest, AModuleThatIsCalledTwiceIsTwoLayersWithOneParameter) {
  SmallDecoder graph;
  for (const char* value : {"h1", "r1", "x2"}) {
    for (ModuleCall& call : graph.node_of(value).modules) {
      if (call.path == "blocks") continue;
      call.key = "blocks.0@1" + call.path.substr(8);
      call.path = "blocks.0" + call.path.substr(8);
    }
  }
  graph.node_of("h1").arguments[1].second.value = graph.find("blocks.0.weight");
  const auto model = graph.model();
  const std::vector<GraphLayer>& layers = model->layers.layers;
  ASSERT_EQ(names_of(layers), (Names{"words", "blocks.0", "blocks.0@1", "head"}));
  ASSERT_EQ(layers[2].parameters.size(), 1u);
  EXPECT_EQ(layers[1].parameters[0].name, "blocks.0.weight");
  EXPECT_EQ(layers[1].parameters[0].tied_to, "");
  EXPECT_EQ(layers[2].parameters[0].name, "blocks.0.weight@1");
  EXPECT_EQ(layers[2].parameters[0].tied_to, "blocks.0.weight");
  EXPECT_EQ(layers[2].parameters[0].of, "blocks.0.weight");
  EXPECT_NE(layers[2].parameters[0].value, layers[1].parameters[0].value);
}

TEST(GraphLayersTest, TiedParametersHaveTheNameOfTheFirstUse) {
  const auto uses = [](const SmallDecoder& graph) {
    const auto model = graph.model();
    Names found;
    for (const GraphLayer& layer : model->layers.layers)
      for (const GraphUse& use : layer.parameters) found.push_back(use.name + " " + use.tied_to);
    return found;
  };
  SmallDecoder said;
  said.graph.facts.ties = {{"head.weight", "words.weight"}};
  EXPECT_EQ(uses(said), (Names{"words.weight ", "blocks.0.weight ", "blocks.1.weight ",
                               "head.weight words.weight"}));
  // The tie names a first use that is no parameter of any layer.
  said.graph.facts.ties = {{"head.weight", "shared"}, {"words.weight", "shared"}};
  EXPECT_EQ(uses(said),
            (Names{"shared ", "blocks.0.weight ", "blocks.1.weight ", "head.weight shared"}));
  // Without facts from the exporter, parameters with the same record are tied. Empty records do not
  // tie.
  for (const std::int64_t bytes : {256, 0}) {
    SmallDecoder stored;
    for (GraphTensor& tensor : stored.graph.tensors) {
      const bool is_tied = tensor.name == "words.weight" || tensor.name == "head.weight";
      tensor.record = bytes == 0 || is_tied ? "weight_0" : "weight_" + tensor.name;
      tensor.bytes = bytes;
    }
    const Names expected = {"words.weight ", "blocks.0.weight ", "blocks.1.weight ",
                            bytes > 0 ? "head.weight words.weight" : "head.weight "};
    EXPECT_EQ(uses(stored), expected);
  }
}

TEST(GraphLayersTest, ASkipIsReadByBothOfItsLayers) {
  SmallDecoder graph;
  graph.add(in_block(1), "aten.add.Tensor", {{"self", Value{"x2"}}, {"other", Value{"x0"}}},
            "skipped");
  graph.move_last(1);
  graph.feed("logits_value", "skipped");
  const auto model = graph.model();
  ASSERT_EQ(names_of(model->layers.layers), kLayers);
  EXPECT_EQ(values_of(*model, model->layers.layers[0].writes), Names{"x0"});
  EXPECT_EQ(values_of(*model, model->layers.layers[1].reads), Names{"x0"});
  EXPECT_EQ(values_of(*model, model->layers.layers[2].reads), (Names{"x1", "x0"}));
  // blocks.0 reads x0 in two nodes, and another layer reads it too. So the gradients of blocks.0
  // are summed first.
  EXPECT_EQ(values_of(*model, model->layers.layers[1].shared), Names{"x0"});
  EXPECT_EQ(model->layers.layers[2].shared, std::vector<int>{});
}

TEST(GraphLayersTest, EncoderAndDecoderAreLayersOfOneModel) {
  WrittenGraph graph;
  graph.batch("input_ids", {"s0", "s1"}, "int64");
  graph.batch("decoder_input_ids", {"s0", "s2"}, "int64");
  graph.parameter("words.weight", {16, 4});
  for (const char* name : {"encoder.0.weight", "decoder.0.weight", "decoder.1.weight"})
    graph.parameter(name, {4, 4});
  const auto embedded = [&](const std::string& ids, const std::string& written,
                            const std::string& key) {
    graph.add({{key, "m.Words"}}, "aten.embedding.default",
              {{"weight", Value{"words.weight"}}, {"indices", Value{ids}}}, written);
  };
  embedded("input_ids", "e0", "words");
  graph.linear({{"encoder.0", "m.Block"}}, "e0", "encoder.0.weight", "memory");
  embedded("decoder_input_ids", "d0", "words@1");
  for (int i = 0; i < 2; ++i) {
    const std::string n = std::to_string(i), key = "decoder." + n;
    graph.linear({{key, "m.Block"}}, "d" + n, key + ".weight", "g" + n);
    graph.add({{key, "m.Block"}}, "aten.add.Tensor",
              {{"self", Value{"g" + n}}, {"other", Value{"memory"}}}, "d" + std::to_string(i + 1));
  }
  graph.result("logits", "d2");
  graph.result("hidden", "memory");
  const auto model = graph.model();
  const std::vector<GraphLayer>& layers = model->layers.layers;
  ASSERT_EQ(names_of(layers), (Names{"words", "encoder.0", "words@1", "decoder.0", "decoder.1"}));
  EXPECT_EQ(model->layers.inputs, (Names{"input_ids", "decoder_input_ids"}));
  EXPECT_EQ(values_of(*model, layers[4].reads), (Names{"d1", "memory"}));
  EXPECT_EQ(layers[2].parameters[0].tied_to, "words.weight");
  EXPECT_EQ(model->layers.outputs, Names{"logits"});  // the other output is not requested
}

TEST(GraphLayersTest, NodesWithoutParametersAreFree) {
  SmallDecoder graph;
  graph.buffer("table", {"4"});
  const auto before_blocks = [&](const std::string& target,
                                 const SmallDecoder::Arguments& arguments,
                                 const std::string& written) {
    graph.add(in_block(0), target, arguments, written);
    graph.move_last(7);
  };
  before_blocks("aten.cos.default", {{"self", Value{"table"}}}, "angles");
  before_blocks("aten.mul.Tensor", {{"self", Value{"x0"}}, {"other", Value{"angles"}}}, "turned");
  graph.feed("h0", "turned");
  const auto model = graph.model();
  EXPECT_EQ(names_of(model->layers.layers), kLayers);
  ASSERT_EQ(names_of(model->layers.free), Names{"free blocks.0"});
  EXPECT_EQ(values_of(*model, model->layers.free[0].writes), Names{"angles"});
  EXPECT_EQ(values_of(*model, model->layers.layers[1].reads), (Names{"x0", "angles"}));
  const auto free_with = [&](const std::function<void(SmallDecoder&)>& change) {
    SmallDecoder changed = graph;
    change(changed);
    return names_of(changed.model()->layers.free);
  };
  EXPECT_EQ(
      free_with([](SmallDecoder& g) { g.node_of("angles").target = "aten.rand_like.default"; }),
      Names{});
  EXPECT_EQ(free_with([](SmallDecoder& g) { g.node_of("angles").target = "aten.dropout.default"; }),
            Names{});
  EXPECT_EQ(free_with([](SmallDecoder& g) { g.feed("angles", "blocks.0.weight"); }), Names{});
  EXPECT_EQ(free_with([](SmallDecoder& g) {
              g.add(in_block(0), "aten.add_.Scalar", {{"self", Value{"table"}}, {"other", 1}},
                    "added", {"4"});
            }),
            Names{});
  EXPECT_EQ(
      free_with([](SmallDecoder& g) {
        g.add(in_block(0), "aten.neg_.default", {{"self", Value{"angles"}}}, "negated", {"4"});
      }),
      Names{});
  EXPECT_EQ(free_with([](SmallDecoder& g) {
              g.add(in_block(0), "aten.batch_norm.default",
                    {{"input", Value{"x1"}}, {"running_mean", Value{"table"}}}, "normed");
            }),
            Names{});
}

TEST(GraphLayersTest, ACountOfLabelsIsFree) {
  SmallDecoder graph;
  graph.batch("labels", {"s0", "s1"}, "int64");
  graph.add({}, "aten.ne.Scalar", {{"self", Value{"labels"}}, {"other", -100}}, "counted",
            {"s0", "s1"}, "bool");
  graph.add({}, "aten.sum.default", {{"self", Value{"counted"}}}, "number", {}, "int64");
  graph.add({{"head", "m.Head"}}, "aten.mean.default", {{"self", Value{"logits_value"}}}, "mean",
            {});
  graph.result("loss", "mean");
  graph.result("count", "number");
  graph.graph.facts.loss_output = "loss";
  graph.graph.facts.loss_count = "count";
  const auto model = graph.model();
  EXPECT_EQ(model->layers.outputs, (Names{"loss", "count"}));
  ASSERT_EQ(names_of(model->layers.free), Names{"free model"});
  EXPECT_EQ(values_of(*model, model->layers.free[0].reads), Names{"labels"});
  EXPECT_EQ(names_of(model->layers.layers), kLayers);
}

TEST(GraphLayersTest, WithoutBlocksTheModulesBelowTheRootAreLayers) {
  WrittenGraph graph;
  graph.batch("x", {"s0", "s1", "4"});
  for (const char* name : {"net.first.weight", "net.second.weight"}) graph.parameter(name, {4, 4});
  const std::pair<std::string, std::string> net = {"net", "m.Net"};
  graph.linear({net, {"net.first", "m.Linear"}}, "x", "net.first.weight", "a", {"s0", "s1", "4"});
  graph.add({net}, "aten.relu.default", {{"self", Value{"a"}}}, "b", {"s0", "s1", "4"});
  graph.linear({net, {"net.second", "m.Linear"}}, "b", "net.second.weight", "c", {"s0", "s1", "4"});
  graph.result("logits", "c");
  const auto model = graph.model();
  EXPECT_EQ(names_of(model->layers.layers), (Names{"net.first", "net.second"}));
  for (const GraphLayer& layer : model->layers.layers) EXPECT_EQ(layer.role, LayerRole::kBlock);
}

TEST(GraphLayersTest, ARunOfNoModuleJoinsWhereFewerBytesCross) {
  SmallDecoder graph;
  // Two nodes of no module follow blocks.0: the first doubles the width, the second narrows it.
  graph.add({}, "aten.cat.default",
            {{"tensors", test::GraphBuilder::Items{Value{"x1"}, Value{"x1"}}}}, "wide",
            {"s0", "s1", "8"});
  graph.add({}, "aten.slice.Tensor", {{"self", Value{"wide"}}, {"dim", 2}}, "narrow",
            {"s0", "s1", "2"});
  graph.add(in_block(1), "aten.repeat.default", {{"self", Value{"narrow"}}}, "again");
  std::rotate(graph.module.nodes.begin() + 4, graph.module.nodes.end() - 3,
              graph.module.nodes.end());
  for (const char* value : {"h1", "x2"}) graph.feed(value, "again");
  const auto model = graph.model();
  ASSERT_EQ(names_of(model->layers.layers), kLayers);
  EXPECT_EQ(values_of(*model, model->layers.layers[1].writes), Names{"narrow"});
}

TEST(GraphLayersTest, ResultsThatAreAskedForMustBeTensorsOfTheGraph) {
  SmallDecoder graph;
  const Error missing = error_of([&] { layers_of(graph.graph, graph.module, {}, {"logit"}); });
  EXPECT_EQ(missing.kind(), ErrorKind::kInput);
  EXPECT_EQ(missing.fact(), "the graph has no result 'logit'");
  EXPECT_EQ(missing.remedy(), "did you mean 'logits'?");
  graph.module.outputs.front().value.kind = GraphArgument::Kind::kInt;
  EXPECT_EQ(error_of([&] { layers_of(graph.graph, graph.module, {}, {"logits"}); }).fact(),
            "the result 'logits' of the graph is not a tensor");
}

}  // namespace
}  // namespace sluice::detail
