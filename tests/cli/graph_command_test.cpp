#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "archive/small_graph.h"
#include "support/run_program.h"
#include "support/temp_directory.h"

namespace sluice::testing {
namespace {

using nlohmann::json;

const std::string kGraphs = SLUICE_TEST_DATA "/command/data/";
const std::string kDecoder = kGraphs + "decoder.pt2";

json object_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const ProgramResult result = run_sluice(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return json::parse(result.out, nullptr, false);
}

void expect_refused(const std::vector<std::string>& arguments, int exit_code,
                    const std::string& says) {
  const ProgramResult result = run_sluice(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err.find('\n') + 1, result.err.size()) << result.err;
  EXPECT_EQ(parts_of(result.err), 3) << result.err;
  EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
}

std::vector<std::string> names_of(const json& list, const char* key = "name") {
  std::vector<std::string> names;
  for (const json& each : list) names.push_back(each.at(key));
  return names;
}

TEST(GraphCommandTest, InspectShowsLayersAndWhatCrosses) {
  const json graph = object_of({"graph", "inspect", kDecoder, "--rows", "3", "--length", "5"});
  EXPECT_EQ(names_of(graph.at("layers")),
            (std::vector<std::string>{"words", "places", "blocks.0", "blocks.1", "norm", "head"}));
  EXPECT_EQ(names_of(graph.at("free_layers")), std::vector<std::string>{"free model"});
  EXPECT_EQ(graph.at("loss"), json({{"output", "logits"}, {"count", ""}}));
  EXPECT_EQ(graph.at("has_weights"), true);
  EXPECT_EQ(graph.at("num_parameters"), 3736);  // counts the tied table once
  EXPECT_EQ(graph.at("microbatch"), json({{"rows", 3}, {"length", 5}}));
  const json& crossing = graph.at("crossing").at(2);
  EXPECT_EQ(crossing.at("behind"), "blocks.0");
  ASSERT_EQ(crossing.at("values").size(), 1u);
  EXPECT_EQ(crossing.at("values").at(0).at("sizes"), json({3, 5, 8}));
  EXPECT_EQ(graph.at("layers").at(2).at("inside"),
            json({"blocks.0.norm", "blocks.0.mix", "blocks.0.dropout", "blocks.0.feed"}));
  EXPECT_EQ(graph.at("refused"), json::array());
  EXPECT_EQ(graph.at("without_cost"), json::array());
  EXPECT_EQ(
      names_of(
          object_of({"graph", "inspect", kDecoder, "--layer-class", "Attention"}).at("layers")),
      (std::vector<std::string>{"words", "places", "blocks.0.norm", "blocks.0.mix", "blocks.0.feed",
                                "blocks.1.norm", "blocks.1.mix", "blocks.1.feed", "norm", "head"}));
}

TEST(GraphCommandTest, InspectSaysTheSameToPeople) {
  const std::string text = run_sluice({"graph", "inspect", kDecoder}).out;
  for (const char* part : {"3,736 parameters", "weights: in the archive",
                           "input  input_ids int64[rows, length]", "loss   causal, of logits",
                           "blocks.0  block  11 nodes, 328 parameters; a cut after it sends: add_2 "
                           "float32[rows, length, 8]",
                           "free layers, on every stage that reads them:\n  free model  1 node\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(GraphCommandTest, InspectNamesSizesThatMayVary) {
  const std::string text = run_sluice({"graph", "inspect", kGraphs + "translation.pt2"}).out;
  for (const char* part : {"input  input_ids int64[rows, length]\n",
                           "input  decoder_input_ids int64[rows, decoder_length]\n",
                           "input  labels int64[rows, decoder_length]\n",
                           "size   decoder_length from 1, 5 as exported",
                           "a cut after it sends: add_2 float32[rows, decoder_length, 8]\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(GraphCommandTest, InspectNamesSizesThatAreMadeOfOthers) {
  test::SmallArchive archive;
  test::GraphJson& sizes = test::graph_of(archive.program)["tensor_values"]["x"]["sizes"];
  const auto expression = [](const char* text) {
    return test::GraphJson{{"as_expr", {{"expr_str", text}}}};
  };
  // s2 has no name, so the graph shows its number.
  sizes = {expression("s0"), expression("2*s1 + 1"), expression("s2"), expression("s0*s2")};
  archive.program["range_constraints"]["s2"] = {{"min_val", 5}, {"max_val", nullptr}};
  archive.facts = R"({"format": 1, "ties": [], "outputs": ["relu"], "notes": [],
    "sizes": [{"name": "rows", "symbol": "s0", "example": 2},
              {"name": "source", "symbol": "s1", "example": 4}]})";
  const test::TempDirectory folder;
  const std::string path = folder / "sizes.pt2";
  test::write_file(path, archive.bytes());
  const ProgramResult shown = run_sluice({"graph", "inspect", path});
  EXPECT_NE(shown.out.find("input  x float32[rows, 2*source + 1, 5, 10]\n"), std::string::npos)
      << shown.out << shown.err;
}

TEST(GraphCommandTest, AGraphForImagesHasRowsAndNoTokens) {
  const test::TempDirectory folder;
  test::write_file(folder / "rows.jsonl", "{\"pixel_values\": [], \"labels\": 0}\n");
  test::write_file(folder / "run.toml", "[model]\ngraph = \"" + kGraphs + "images.pt2\"\n");
  const std::vector<std::string> arguments = {"plan",
                                              folder / "run.toml",
                                              "--data.files=[\"" + (folder / "rows.jsonl") + "\"]",
                                              "--training.microbatch_size=2",
                                              "--training.local_batch_size=8",
                                              "--parallelism.pipeline_parallel_degree=2"};
  const ProgramResult planned = run_sluice(arguments);
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_NE(planned.out.find("4 microbatches of 2 rows"), std::string::npos) << planned.out;
  EXPECT_EQ(planned.out.find("tokens"), std::string::npos) << planned.out;
  EXPECT_TRUE(object_of(arguments).at("schedule").at("seq_len").is_null());
}

TEST(GraphCommandTest, InspectSaysWhereEvaluationIsAnotherGraph) {
  EXPECT_EQ(object_of({"graph", "inspect", kDecoder}).at("evaluation"), "the same graph");
  const std::string modes = kGraphs + "modes.pt2";
  EXPECT_EQ(object_of({"graph", "inspect", modes}).at("evaluation"), "another graph");
  const std::string text = run_sluice({"graph", "inspect", modes}).out;
  EXPECT_NE(text.find("evaluation is another graph, of 2"), std::string::npos) << text;
}

// Written by tests/archive/data/make_archives.py with plain torch.export.save.
TEST(GraphCommandTest, GraphWithoutLossTrainsIfLossKeyIsSet) {
  const std::string plain = SLUICE_TEST_DATA "/archive/data/plain.pt2";
  const json graph = object_of({"graph", "inspect", plain});
  EXPECT_EQ(graph.at("loss").at("output"), "");
  EXPECT_GT(graph.at("layers").size(), 0u);
  const std::string text = run_sluice({"graph", "inspect", plain}).out;
  EXPECT_NE(text.find("loss   not named: set model.loss_output to one of "), std::string::npos)
      << text;
  EXPECT_EQ(run_sluice({"split", "--model", plain, "--stages", "1"}).exit_code, 0);
  const test::TempDirectory folder;
  test::write_file(folder / "run.toml", "[model]\ngraph = \"" + plain + "\"\n");
  const ProgramResult planned = run_sluice({"plan", folder / "run.toml"});
  EXPECT_EQ(planned.exit_code, 2) << planned.err;
  EXPECT_NE(planned.err.find("model.loss_output"), std::string::npos) << planned.err;
}

// An operator that accesses files, and control characters in texts.
std::string hostile_archive() {
  test::SmallArchive archive;
  test::GraphJson& graph = test::graph_of(archive.program);
  graph["nodes"].push_back(test::node_json("torch.ops.aten.from_file.default",
                                           {test::argument_json("filename", {{"as_string", "a"}}),
                                            test::argument_json("size", {{"as_int", 4}})},
                                           {test::named_tensor("\x1b[2Jstolen")}));
  graph["tensor_values"]["\x1b[2Jstolen"] = test::tensor_json(7, {4});
  archive.program["torch_version"] = "2.13\x1b[31m";
  archive.facts = test::GraphJson{{"format", 1},
                                  {"ties", test::GraphJson::array()},
                                  {"sizes", test::GraphJson::array()},
                                  {"outputs", {"relu\x1b[2J"}},
                                  {"notes", {"\x1b]0;owned\x07\x1b[2J", "two\nlines"}}}
                      .dump();
  return archive.bytes();
}

TEST(GraphCommandTest, InspectListsWhatIsRefusedAndSteersNoTerminal) {
  const test::TempDirectory folder;
  const std::string path = folder / "hostile.pt2";
  test::write_file(path, hostile_archive());
  const ProgramResult shown = run_sluice({"graph", "inspect", path});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  for (const unsigned char c : shown.out + shown.err)
    EXPECT_TRUE(c >= 0x20 || c == '\n') << static_cast<int>(c);
  EXPECT_NE(shown.out.find("note: two lines\n"), std::string::npos) << shown.out;
  EXPECT_NE(
      shown.out.find("  refused: 'aten.from_file.default' is not an operator that an exported "
                     "graph may run\n"),
      std::string::npos)
      << shown.out;
  EXPECT_EQ(object_of({"graph", "inspect", path}).at("refused"), json({"aten.from_file.default"}));
  expect_refused({"split", "--model", path, "--pp", "1"}, 3, "'aten.from_file.default'");
}

TEST(GraphCommandTest, ToolPrintsTheFileOfTheRepository) {
  const ProgramResult result = run_sluice({"graph", "tool"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, test::read_file(SLUICE_TEST_DATA "/../tools/sluice_export.py"));
}

TEST(GraphCommandTest, SplitCutsAtBlocksAndAtNames) {
  const json split = object_of(
      {"split", "--model", kDecoder, "--pp", "2", "--microbatch-size", "2", "--seq-len", "16"});
  EXPECT_EQ(split.at("split_points"), json({"blocks.1"}));
  EXPECT_EQ(split.at("stages").at(0).at("modules"), json({"words", "places", "blocks.0"}));
  EXPECT_EQ(split.at("stages").at(1).at("modules"), json({"blocks.1", "norm", "head"}));
  EXPECT_EQ(split.at("stages").at(0).at("output_shape"), json({2, 16, 8}));
  EXPECT_EQ(split.at("stages").at(0).at("parameters"),
            json({"words.weight", "places.weight", "blocks.0.norm.weight",
                  "blocks.0.mix.qkv.weight", "blocks.0.mix.out.weight", "blocks.0.feed.weight"}));
  EXPECT_EQ(split.at("stages").at(1).at("parameters").back(), "head.weight");
  EXPECT_EQ(split.at("tie_groups"), json::parse(R"([{"name":"words.weight","stages":[0,1]}])"));
  const json behind = object_of({"split", "--model", kDecoder, "--cuts", "blocks.0.mix"});
  const json before = object_of({"split", "--model", kDecoder, "--split-points", "blocks.0.mix"});
  EXPECT_EQ(behind.at("stages").at(1).at("parameters").at(0), "blocks.0.feed.weight");
  EXPECT_EQ(before.at("stages").at(1).at("parameters").at(0), "blocks.0.mix.qkv.weight");
  const json listed =
      object_of({"split", "--model", kDecoder, "--modules",
                 R"([["words", "places", "blocks.0"], ["blocks.1", "norm", "head"]])"});
  EXPECT_EQ(listed.at("num_stages"), 2);
  EXPECT_EQ(listed.at("stages").at(1).at("modules"), json({"blocks.1", "norm", "head"}));
  expect_refused({"split", "--model", kDecoder, "--cuts", "blocks.0.mixx"}, 2,
                 "unknown name 'blocks.0.mixx' in the cuts");
}

TEST(GraphCommandTest, WhatIsNoArchiveIsRefused) {
  const test::TempDirectory folder;
  expect_refused({"split", "--model", folder / "none.pt2", "--pp", "2"}, 3, "none.pt2");
  test::write_file(folder / "text.pt2", "a text\n");
  expect_refused({"graph", "inspect", folder / "text.pt2"}, 3, "text.pt2");
  const std::string whole = test::read_file(kDecoder);
  test::write_file(folder / "half.pt2", whole.substr(0, whole.size() / 2));
  expect_refused({"graph", "inspect", folder / "half.pt2"}, 3, "half.pt2");
  expect_refused({"graph", "inspect", kDecoder, "--layer-class", "DecoderBlok"}, 2,
                 "did you mean 'DecoderBlock'?");
  expect_refused({"graph", "inspect", kDecoder, "--loss-output", "logit"}, 2,
                 "did you mean 'logits'?");
}

TEST(GraphCommandTest, PlanNeedsNoTorchAndKnowsTheClassOfBlocks) {
  const test::TempDirectory folder;
  test::write_file(folder / "rows.jsonl", "{\"input_ids\": [1, 2, 3]}\n");
  test::write_file(folder / "run.toml", "[model]\ngraph = \"" + kDecoder + "\"\n");
  const std::vector<std::string> arguments = {"plan",
                                              folder / "run.toml",
                                              "--data.files=[\"" + (folder / "rows.jsonl") + "\"]",
                                              "--training.microbatch_size=2",
                                              "--training.local_batch_size=8",
                                              "--training.seq_len=16",
                                              "--parallelism.pipeline_parallel_degree=2"};
  const json plan = object_of(arguments);
  EXPECT_EQ(plan.at("split").at("split_points"), json({"blocks.1"}));
  EXPECT_EQ(plan.at("memory").size(), 2u);
  std::vector<std::string> by_class = arguments;
  by_class.emplace_back("--model.transformer_layer_cls=Attention");
  EXPECT_EQ(object_of(by_class).at("split").at("stages").at(0).at("modules").back(),
            "blocks.0.feed");
  std::vector<std::string> chosen = arguments;
  chosen.emplace_back("--parallelism.pipeline_parallel_schedule=auto");
  EXPECT_EQ(object_of(chosen).at("split").at("num_stages"), 2);
  // Two blocks are too few for four stages.
  std::vector<std::string> interleaved = arguments;
  interleaved.emplace_back("--parallelism.pipeline_parallel_schedule=ZBVZeroBubble");
  expect_refused(interleaved, 2, "2 layers cannot fill 4 stages");
}

}  // namespace
}  // namespace sluice::testing
