#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "support/run_program.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using testing::ProgramResult;
using testing::run_sluice;

const std::string kModels = std::string(SLUICE_TEST_DATA) + "/reference/models/";

ProgramResult split(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "split");
  return run_sluice(arguments);
}

Json split_object(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const ProgramResult result = split(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return Json::parse(result.out);
}

std::vector<int> layers_per_stage(const Json& object) {
  std::vector<int> layers;
  for (const Json& stage : object.at("stages")) layers.push_back(stage.at("num_layers"));
  return layers;
}

// Returns the only line of stderr.
std::string refusal(const std::vector<std::string>& arguments, int exit_code = 2) {
  const ProgramResult result = split(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err.find('\n') + 1, result.err.size()) << result.err;
  EXPECT_EQ(testing::parts_of(result.err), 3) << result.err;
  return result.err;
}

TEST(SplitCommandTest, PrintsOneObjectWithTheStages) {
  const Json object = split_object({"--layers", "10", "--pp", "2", "--schedule", "ZBVZeroBubble"});
  EXPECT_EQ(object.at("num_stages"), 4);
  EXPECT_EQ(object.at("stages_per_rank"), 2);
  EXPECT_EQ(object.at("stage_to_rank"), Json({0, 1, 1, 0}));
  EXPECT_EQ(object.at("split_points"),
            Json({"model.layers.3", "model.layers.6", "model.layers.8"}));
  const Json& last = object.at("stages").at(3);
  EXPECT_EQ(last.at("stage"), 3);
  EXPECT_EQ(last.at("rank"), 0);
  EXPECT_EQ(last.at("first_layer"), 8);
  EXPECT_EQ(last.at("num_layers"), 2);
  EXPECT_EQ(last.at("modules"),
            Json({"model.layers.8", "model.layers.9", "model.norm", "lm_head"}));
  EXPECT_FALSE(last.contains("parameters"));
}

TEST(SplitCommandTest, ListsParametersAndShapesOfAModel) {
  const Json object = split_object({"--model", kModels + "llama_tied", "--pp", "3",
                                    "--microbatch-size", "2", "--seq-len", "16"});
  const Json& stages = object.at("stages");
  EXPECT_EQ(stages.at(0).at("parameters").at(0), "model.embed_tokens.weight");
  EXPECT_EQ(stages.at(2).at("parameters").back(), "lm_head.weight");
  EXPECT_EQ(object.at("hidden_size"), 64);
  EXPECT_EQ(object.at("vocab_size"), 320);
  EXPECT_EQ(stages.at(0).at("input_shape"), Json({2, 16}));
  EXPECT_EQ(stages.at(1).at("input_shape"), Json({2, 16, 64}));
  EXPECT_EQ(stages.at(2).at("output_shape"), Json({2, 16, 320}));
  EXPECT_EQ(stages.at(2).at("bytes"), 4 * stages.at(2).at("num_parameters").get<int>());
  EXPECT_EQ(object.at("tie_groups"),
            Json::parse(R"([{"name":"model.embed_tokens.weight","stages":[0,2]}])"));
}

TEST(SplitCommandTest, KnowsEveryConvention) {
  const std::vector<std::string> base = {
      "--layers", "30", "--pp", "4", "--schedule", "Interleaved1F1B", "--convention"};
  const auto shares = [&](const std::string& convention, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = base;
    arguments.push_back(convention);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return layers_per_stage(split_object(arguments));
  };
  EXPECT_EQ(shares("sluice"), (std::vector{4, 4, 4, 4, 4, 4, 3, 3}));
  EXPECT_EQ(shares("sluice", {"--remainder", "last"}), (std::vector{3, 3, 4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(shares("torchtitan"), (std::vector{3, 4, 4, 4, 4, 4, 4, 3}));
  EXPECT_EQ(shares("torchtitan", {"--layers-per-stage", "4"}),
            (std::vector{3, 4, 4, 4, 4, 4, 4, 3}));
  EXPECT_EQ(shares("torchtitan-2024"), (std::vector{3, 4, 4, 4, 4, 4, 4, 3}));
  EXPECT_EQ(shares("torchtitan-current"), (std::vector{3, 4, 4, 4, 4, 4, 4, 3}));
  EXPECT_EQ(shares("automodel"), (std::vector{4, 4, 4, 4, 4, 4, 3, 3}));
  EXPECT_EQ(shares("neuronx"), (std::vector{3, 3, 4, 4, 4, 4, 4, 4}));
}

TEST(SplitCommandTest, TakesCutsInTheThreeWaysOfNamingThem) {
  const std::vector<int> expected = {3, 5};
  EXPECT_EQ(layers_per_stage(split_object({"--layers", "8", "--split-points", "model.layers.3"})),
            expected);
  EXPECT_EQ(layers_per_stage(split_object({"--layers", "8", "--cuts", "model.layers.2"})),
            expected);
  EXPECT_EQ(
      layers_per_stage(split_object(
          {"--layers", "2", "--modules",
           R"([["model.embed_tokens","model.layers.0"],["model.layers.1","model.norm","lm_head"]])"})),
      (std::vector{1, 1}));
}

TEST(SplitCommandTest, MakesAsManyStagesAsAGivenMapPlaces) {
  const Json object = split_object({"--layers", "8", "--stage-to-rank", "0,1,1,0"});
  EXPECT_EQ(object.at("stage_to_rank"), Json({0, 1, 1, 0}));
  EXPECT_EQ(object.at("stages_per_rank"), 2);
  EXPECT_EQ(layers_per_stage(object), (std::vector{2, 2, 2, 2}));
  EXPECT_EQ(
      split_object({"--layers", "8", "--pp", "2", "--stage-to-rank", "0,1,0"}).at("num_stages"), 3);
}

TEST(SplitCommandTest, NamesTheEndsAsAutoModelIsTold) {
  const Json object =
      split_object({"--convention", "automodel", "--layers", "2", "--stages", "2", "--prefix", "",
                    "--lm-head", "score", "--no-rotary", "--extra-modules", "visual, a.b"});
  EXPECT_EQ(object.at("stages").at(0).at("modules"),
            Json({"embed_tokens", "visual", "a.b", "layers.0"}));
  EXPECT_EQ(object.at("stages").at(1).at("modules"), Json({"layers.1", "norm", "score"}));
}

TEST(SplitCommandTest, TakesAnEmptyValueBehindAnEqualsSign) {
  const Json object = split_object({"--convention=automodel", "--layers=2", "--stages=2",
                                    "--no-rotary", "--prefix=", "--lm-head=score"});
  EXPECT_EQ(object.at("stages").at(0).at("modules"), Json({"embed_tokens", "layers.0"}));
  EXPECT_EQ(object.at("stages").at(1).at("modules"), Json({"layers.1", "norm", "score"}));
}

TEST(SplitCommandTest, SaysWhenTheScheduleDoesNotRunTheSplit) {
  const std::vector<std::string> arguments = {"--layers", "8", "--pp",       "4",
                                              "--stages", "8", "--schedule", "1f1b"};
  EXPECT_EQ(split_object(arguments).at("stage_to_rank"), Json({0, 1, 2, 3, 0, 1, 2, 3}));
  const std::string text = split(arguments).out;
  EXPECT_NE(text.find("1F1B runs exactly 1 stage a rank and refuses this split: use 4 stages, or "
                      "Interleaved1F1B\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(split({"--layers", "8", "--pp", "4", "--schedule", "1F1B"}).out.find("refuses"),
            std::string::npos);
}

TEST(SplitCommandTest, SplitPointsOfTorchtitanWinOverLayersPerStageWithANote) {
  const std::vector<std::string> arguments = {
      "--layers",           "8",          "--pp",           "2",
      "--convention",       "torchtitan", "--split-points", "layers.3",
      "--layers-per-stage", "2"};
  EXPECT_EQ(layers_per_stage(split_object(arguments)), (std::vector{3, 5}));
  EXPECT_NE(split(arguments).out.find("note: --layers-per-stage = 2 is not used: the split points "
                                      "win, as in torchtitan\n"),
            std::string::npos);
}

TEST(SplitCommandTest, NamesTheOptionWhenANameIsOfAnotherConvention) {
  EXPECT_EQ(refusal({"--layers", "8", "--split-points", "layers.3"}),
            "sluice: error: unknown name 'layers.3' in the split points; command 'sluice split'; "
            "'layers.3' is a name of convention torchtitan: set --convention to that, or write "
            "'model.layers.3'\n");
}

TEST(SplitCommandTest, ReadsTheLanguageModelInsideAConfiguration) {
  const test::TempDirectory directory;
  std::ifstream flat(kModels + "llama_untied/config.json");
  const Json text_config = Json::parse(flat);
  std::ofstream(directory / "config.json")
      << Json{{"model_type", "llava"}, {"vocab_size", 300}, {"text_config", text_config}};
  const Json object =
      split_object({"--model", directory / "config.json", "--convention", "automodel", "--pp", "2",
                    "--multimodal", "--microbatch-size", "1", "--seq-len", "8"});
  const Json& first = object.at("stages").at(0);
  EXPECT_EQ(first.at("modules").at(0), "model.language_model.embed_tokens");
  EXPECT_EQ(first.at("modules").at(1), "model.vision_tower");
  EXPECT_EQ(first.at("parameters").at(1), "model.language_model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(first.at("output_shape"), Json({1, 8, 64}));
  // transformers reads the vocabulary size from text_config.
  EXPECT_EQ(object.at("stages").at(1).at("output_shape"), Json({1, 8, 256}));
}

TEST(SplitCommandTest, TiesTheHeadOfALanguageModelInsideWhenEitherConfigurationSaysSo) {
  const test::TempDirectory directory;
  std::ifstream flat(kModels + "llama_untied/config.json");
  const Json text_config = Json::parse(flat);
  for (const bool outer : {false, true}) {
    for (const bool inner : {false, true}) {
      Json config = {{"model_type", "llava"}, {"text_config", text_config}};
      config["tie_word_embeddings"] = outer;
      config["text_config"]["tie_word_embeddings"] = inner;
      std::ofstream(directory / "config.json") << config;
      const Json object = split_object({"--model", directory / "config.json", "--stages", "2"});
      EXPECT_EQ(object.at("tie_groups").size(), outer || inner ? 1u : 0u) << outer << inner;
    }
  }
}

TEST(SplitCommandTest, RefusesOptionsThatTheConventionDoesNotKnow) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> inapplicable = {
      {"torchtitan", {"--cuts", "layers.1"}},
      {"torchtitan", {"--modules", R"([["norm"]])"}},
      {"torchtitan", {"--remainder", "last"}},
      {"torchtitan", {"--prefix", "model."}},
      {"torchtitan-2024", {"--layers-per-stage", "2"}},
      {"torchtitan-2024", {"--input-weight", "0"}},
      {"torchtitan-current", {"--split-points", "layers.1"}},
      {"torchtitan-current", {"--round", "up"}},
      {"automodel", {"--split-points", "model.layers.1"}},
      {"automodel", {"--output-weight", "1"}},
      {"neuronx", {"--round", "down"}},
      {"neuronx", {"--layers-per-stage", "2"}},
      {"sluice", {"--no-rotary"}},
      {"sluice", {"--multimodal"}},
      {"sluice", {"--extra-modules", "a"}}};
  for (const auto& [convention, options] : inapplicable) {
    std::vector<std::string> arguments = {"--layers", "8", "--pp", "2", "--convention", convention};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const std::string line = refusal(arguments);
    EXPECT_NE(line.find("convention " + convention + " has no "), std::string::npos) << line;
  }
  EXPECT_EQ(
      refusal({"--layers", "8", "--pp", "2", "--no-rotary"}),
      "sluice: error: convention sluice has no option to leave out rotary embeddings; command "
      "'sluice split'; leave it out, or use one of these conventions: automodel\n");
}

TEST(SplitCommandTest, RefusesWithNumbersAndARemedy) {
  const auto expect_refusal = [](std::vector<std::string> arguments, const std::string& text) {
    const std::string line = refusal(arguments);
    EXPECT_NE(line.find(text), std::string::npos) << line;
  };
  expect_refusal({"--layers", "8"}, "give it, or the number of stages");
  expect_refusal({"--pp", "2"}, "no model is given");
  expect_refusal(
      {"--layers", "8", "--pp", "0"},
      "'0' is not a value of --pp; command 'sluice split'; give a whole number from 1 to "
      "65536");
  expect_refusal({"--layers", "3", "--pp", "4"},
                 "3 layers cannot fill 4 stages; command 'sluice split'; use at most 3 stages, or "
                 "--layers of at least 4 layers");
  expect_refusal(
      {"--layers", "0", "--pp", "2"},
      "0 layers cannot fill 2 stages; command 'sluice split'; use --layers of at least 2 "
      "layers");
  expect_refusal(
      {"--layers", "99999999999999", "--pp", "2"},
      "'99999999999999' is not a value of --layers; command 'sluice split'; give a whole "
      "number from 0 to 10000");
  expect_refusal({"--layers", "30", "--pp", "4", "--schedule", "1F1B", "--layers-per-stage", "4"},
                 "30 layers with --layers-per-stage 4 make 8 stages, 2 on each of 4 ranks");
  expect_refusal({"--layers", "8", "--pp", "4", "--schedule", "DualPipeV", "--stages", "4"},
                 "make 8 stages");
  expect_refusal({"--layers", "8", "--pp", "2", "--schedule", "1F2B"}, "did you mean '1F1B'?");
  expect_refusal({"--layers", "8", "--pp", "2", "--convention", "torchtitan-2023"},
                 "did you mean 'torchtitan-2024'?");
  expect_refusal({"--layers", "8", "--split-points", "model.layers.5,model.layers.2"},
                 "'model.layers.2' comes after 'model.layers.5'");
  expect_refusal({"--layers", "8", "--split-points", "model.layers.5,,model.layers.6"},
                 "empty name");
  expect_refusal({"--layers", "8", "--cuts", "model.layer.7"}, "did you mean 'model.layers.7'?");
  expect_refusal({"--layers", "8", "--cuts", "model.layers.9"},
                 "command 'sluice split'; layers are 'model.layers.0' to 'model.layers.7'");
  expect_refusal({"--layers", "8", "--pp", "2", "--cuts", "model.layers.3", "--stages", "4"},
                 "the names make 2 stages, but 4 are asked for");
  expect_refusal({"--layers", "8", "--pp", "2", "--stages", "2", "--layers-per-stage", "4"},
                 "exclude each other");
  expect_refusal({"--layers", "8", "--pp", "2", "--microbatch-size", "1", "--seq-len", "4"},
                 "give --model");
  expect_refusal({"--model", kModels + "llama_tied", "--pp", "2", "--convention", "automodel"},
                 "use convention sluice, which ties them across stages");
  expect_refusal({"--layers", "8", "--pp", "2", "--split-points="}, "empty name");
  expect_refusal({"--layers", "8", "--pp", "2", "--stage-to-rank", "0,2"}, "count ranks from 0");
  expect_refusal({"--layers", "8", "--modules", "x"}, "--modules:1:1; mend it there");
  expect_refusal({"--layers", "10001", "--pp", "2"}, "give a whole number from 0 to 10000");
  refusal({"--model", "/nonexistent", "--pp", "2"}, 3);
}

TEST(SplitCommandTest, RefusesMoreStagesThanLayersHoweverTheyAreGiven) {
  const std::string modules =
      R"([["model.embed_tokens"],["model.layers.0","model.norm","lm_head"]])";
  const std::vector<std::pair<std::string, std::vector<std::string>>> all = {
      {"split points", {"--split-points", "model.layers.0", "--pp", "2"}},
      {"cuts", {"--cuts", "model.embed_tokens"}},
      {"modules", {"--modules", modules}},
      {"modules", {"--modules", modules, "--convention", "automodel"}}};
  for (const auto& [knob, options] : all) {
    std::vector<std::string> arguments = {"--layers", "1"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_EQ(refusal(arguments),
              "sluice: error: 1 layer cannot fill the 2 stages that the " + knob +
                  " make; command 'sluice split'; use at most as many stages as layers: leave some "
                  "of the " +
                  knob + " out\n");
  }
  // Ends that are alone on a stage do not trigger the warning.
  EXPECT_EQ(layers_per_stage(split_object({"--layers", "2", "--split-points", "model.layers.0"})),
            (std::vector{0, 2}));
}

// Checks the rows " --options 3 3 2 2" of docs/partition.md. Each applies to the convention above
// it.
TEST(SplitCommandTest, AnswersAsTheDocumentationSays) {
  std::ifstream page(std::string(SLUICE_TEST_DATA) + "/../docs/partition.md");
  const std::regex heading("--convention ([a-z0-9-]+)");
  const std::regex row("  (--.*?)  +(refused: .*|[0-9 ]+)");
  std::string convention;
  int rows = 0;
  for (std::string line; std::getline(page, line);) {
    std::smatch match;
    if (std::regex_match(line, match, heading)) convention = match[1];
    if (!std::regex_match(line, match, row)) continue;
    ++rows;
    SCOPED_TRACE(convention + line);
    std::istringstream words("--convention " + convention + " " + match[1].str());
    const std::vector<std::string> options{std::istream_iterator<std::string>(words), {}};
    if (match[2].str().starts_with("refused")) {
      refusal(options);
      continue;
    }
    std::istringstream numbers(match[2].str());
    const std::vector<int> layers{std::istream_iterator<int>(numbers), {}};
    EXPECT_EQ(layers_per_stage(split_object(options)), layers);
  }
  EXPECT_EQ(rows, 19);
}

TEST(SplitCommandTest, PrintsATableForPeople) {
  const ProgramResult result = split({"--layers", "8", "--pp", "2"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out,
            "8 layers, 2 stages, 2 ranks (sluice)\n"
            "stage  rank  layers  modules\n"
            "    0     0       4  model.embed_tokens, model.layers.0-3\n"
            "    1     1       4  model.layers.4-7, model.norm, lm_head\n"
            "cut before model.layers.4\n");
}

}  // namespace
}  // namespace sluice
