#include "archive/exported_graph.h"
#include "graph_fixture.h"
#include "support/small_tokenizer.h"

namespace sluice::testing {
namespace {

using nlohmann::json;

class GraphRunTest : public GraphFixture {};

const std::string kOneRank = "--parallelism.pipeline_parallel_degree=1";
const std::string kInside = "--parallelism.pipeline_parallel_cuts=[\"blocks.0.mix\"]";

TEST_F(GraphRunTest, EveryLayoutHasTheSameBitsWithDropoutAndCutsInsideBlocks) {
  const Outcome whole = outcome_of({kOneRank});
  ASSERT_EQ(whole.losses.size(), 3u);
  EXPECT_LT(whole.losses.back(), whole.losses.front());
  const std::vector<std::vector<std::string>> layouts = {
      {},
      {kInside},
      {"--parallelism.pipeline_parallel_split_points=[\"blocks.1.feed\"]"},
      {"--parallelism.pipeline_parallel_schedule=ZBVZeroBubble",
       "--parallelism.partition_convention=neuronx",
       "--parallelism.pipeline_parallel_cuts=[\"places\", \"blocks.0\", \"blocks.1\"]"},
      {"--parallelism.pipeline_parallel_schedule=auto"},
      {"--model.transformer_layer_cls=Attention"},
      {"--training.activation_checkpoint=full"},
      {"--training.activation_checkpoint=[\"Attention\"]"},
      {"--training.activation_checkpoint=[\"blocks.1.feed\", \"blocks.0\"]", kInside}};
  for (const std::vector<std::string>& layout : layouts) {
    const Outcome other = outcome_of(layout);
    EXPECT_EQ(other.losses, whole.losses) << (layout.empty() ? "" : layout.front());
    EXPECT_TRUE(other.hashes == whole.hashes) << (layout.empty() ? "" : layout.front());
  }
  EXPECT_NE(outcome_of({"--training.seed=7"}).losses, whole.losses);
}

TEST_F(GraphRunTest, ReplicasShareTheirOptimizer) {
  const std::vector<std::string> replicas = {"--parallelism.data_parallel_degree=2",
                                             "--training.local_batch_size=2"};
  std::vector<std::string> sharded = replicas;
  sharded.emplace_back("--parallelism.zero1=true");
  const Outcome plain = outcome_of(replicas);
  EXPECT_EQ(plain.losses.size(), 3u);
  EXPECT_TRUE(outcome_of(sharded) == plain);
}

TEST_F(GraphRunTest, ProcessesHaveTheBitsOfThreads) {
  const Outcome threads = outcome_of({});
  fs::remove_all(out());
  const ProgramResult launched =
      run_sluice({"launch", "-n", "2", "--", "train", config(), kInside});
  ASSERT_EQ(launched.exit_code, 0) << launched.err;
  EXPECT_EQ(numbers("loss"), threads.losses);
  EXPECT_TRUE(hashes_of_step("step-00000003") == threads.hashes);
}

TEST_F(GraphRunTest, ResumeRejectsADifferentGraph) {
  const Outcome whole = outcome_of({"--training.steps=4"}, "step-00000004");
  ASSERT_EQ(train_anew({"--training.steps=2"}).exit_code, 0);
  // Resume from a copy of the graph, with another split.
  fs::copy(kDecoder, folder_ / "moved.pt2");
  const ProgramResult more =
      train({"--training.steps=4", kInside, "--model.graph=" + (folder_ / "moved.pt2")});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_EQ(numbers("loss"), whole.losses);
  EXPECT_TRUE(hashes_of_step("step-00000004") == whole.hashes);

  const std::string before = test::read_file(out() + "/metrics.jsonl");
  std::string other = test::read_file(kDecoder);
  const detail::ExportedGraph graph = detail::read_exported_graph(kDecoder);
  other.at(static_cast<std::size_t>(graph.tensor("places.weight")->offset)) ^= 1;
  test::write_file(folder_ / "other.pt2", other);
  const ProgramResult refused =
      train({"--training.steps=6", "--model.graph=" + (folder_ / "other.pt2")});
  EXPECT_EQ(refused.exit_code, 4) << refused.err;
  EXPECT_NE(refused.err.find("another model"), std::string::npos) << refused.err;
  EXPECT_EQ(test::read_file(out() + "/metrics.jsonl"), before);
}

// tests/command/data/make_graphs.py computed this loss.
TEST_F(GraphRunTest, EvaluationMatchesPythonForAnyWeights) {
  const json of_archive = evaluated();
  EXPECT_NEAR(of_archive.at("loss").get<double>(), 5.65075, 1e-5);
  EXPECT_EQ(of_archive.at("tokens"), 8 * 15);
  EXPECT_EQ(evaluated({kOneRank}), of_archive);
  ASSERT_EQ(train({"--training.steps=4"}).exit_code, 0);
  const std::string step = out() + "/checkpoint/step-00000004";
  const json of_checkpoint = evaluated({"--checkpoint", step});
  EXPECT_LT(of_checkpoint.at("loss").get<double>(), of_archive.at("loss").get<double>());
  EXPECT_EQ(evaluated({"--model.path=" + step}), of_checkpoint);
}

// A_log of this graph is neither a weight nor a bias, so no initialization draws it.
TEST_F(GraphRunTest, AParameterThatNothingDrawsIsRefusedByName) {
  for (const char* ranks : {"1", "2"}) {
    const ProgramResult result =
        train({"--model.graph=" + kGraphs + "decays.pt2",
               std::string("--parallelism.pipeline_parallel_degree=") + ranks});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find("nothing draws or loads 'A_log'"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("export the model with --weights"), std::string::npos);
    EXPECT_TRUE(metrics().empty());
  }
}

TEST_F(GraphRunTest, SamplesGoThroughTheGraph) {
  const auto sampled = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"sample", kDecoder, "--prompt", "hello", "--tokens", "6", "--json"});
    const ProgramResult result = run_sluice(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  };
  const json one = sampled({});
  EXPECT_EQ(one.at("prompt_tokens"), json({'h', 'e', 'l', 'l', 'o'}));
  EXPECT_EQ(one.at("tokens").size(), 6u);
  EXPECT_EQ(sampled({"--parallelism.pipeline_parallel_degree=2"}), one);
  EXPECT_NE(sampled({"--temperature", "3"}).at("tokens"), one.at("tokens"));
  ASSERT_EQ(train({"--training.steps=5"}).exit_code, 0);
  const std::string step = out() + "/checkpoint/step-00000005";
  fs::create_directories(folder_ / "words");
  for (const std::string& name : test::list_directory(step))
    if (name.find("safetensors") != std::string::npos)
      fs::copy(step + "/" + name, folder_ / ("words/" + name));
  test::write_file(folder_ / "words/tokenizer.json", test::SmallTokenizer().json());
  const json trained = sampled({"--model.path", folder_ / "words"});
  EXPECT_EQ(trained.at("prompt_tokens"), one.at("prompt_tokens"));
  EXPECT_NE(trained.at("tokens"), one.at("tokens"));
}

TEST_F(GraphRunTest, ValidationReadsFilesAndContinuesPrompts) {
  const ProgramResult result =
      train({"--validation.files=[\"" + rows_of("decoder") + "\"]", "--validation.interval=3",
             "--validation.prompts=[\"the quick\"]"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const double loss = metrics().back().at("validation_loss");
  EXPECT_NE(result.out.find("the quick"), std::string::npos) << result.out;
  EXPECT_NEAR(
      evaluated({"--checkpoint", out() + "/checkpoint/step-00000003"}).at("loss").get<double>(),
      loss, 1e-6);
}

TEST_F(GraphRunTest, CostsOfLayersAreMeasured) {
  const std::string costs = folder_ / "costs.json";
  const ProgramResult planned = run_sluice({"plan", config(), "--measure", costs});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(json::parse(test::read_file(costs)).at("layers").size(), 6u);
  const Outcome whole = outcome_of({kOneRank});
  EXPECT_TRUE(outcome_of({"--parallelism.partition=measured"}) == whole);
}

// The value that crosses the cut is the result of a matrix product, so it has the product's dtype.
TEST_F(GraphRunTest, MixedPrecisionCrossesInItsOwnType) {
  const Outcome halves = outcome_of({"--training.mixed_precision=bfloat16"});
  const Outcome inside = outcome_of({"--training.mixed_precision=bfloat16", kInside});
  EXPECT_EQ(inside.losses.size(), 3u);
  EXPECT_TRUE(inside == halves);
  EXPECT_NE(halves.losses, outcome_of({}).losses);
}

TEST_F(GraphRunTest, AProfileHasTheActionsOfTheGraph) {
  const std::string trace = folder_ / "trace.json";
  ASSERT_EQ(train({"--profile=" + trace}).exit_code, 0);
  std::set<std::string> names;
  const json written = json::parse(test::read_file(trace));
  for (const json& event : written.at("traceEvents")) names.insert(event.at("name"));
  EXPECT_TRUE(names.contains("0F0") && names.contains("1B1")) << json(names).dump();
}

TEST_F(GraphRunTest, WhatDoesNotGoWithAGraphIsRefusedAndCreatesNothing) {
  expect_refused({"--lora.rank=4"}, 2, "lora.rank cannot be used with model.graph");
  expect_refused({"--data.pack=true"}, 2, "data.pack cannot be used with model.graph");
  expect_refused({"--model.config=" + kModel}, 2, "model.config");
  expect_refused({"--parallelism.zero3=true", "--parallelism.data_parallel_degree=2",
                  "--training.local_batch_size=2"},
                 2, "write zero1 = true");
  expect_refused({"--model.dtype=bfloat16"}, 2,
                 "set model.dtype = \"float32\", or export the model in bfloat16");
  expect_refused({"--model.transformer_layer_cls=DecoderBlok"}, 2, "did you mean 'DecoderBlock'?");
  expect_refused({"--model.loss_output=logit"}, 2, "did you mean 'logits'?");
  expect_refused({"--parallelism.pipeline_parallel_cuts=[\"blocks.0.mixx\"]"}, 2, "blocks.0.mix");
  expect_refused({"--training.activation_checkpoint=[\"Attentio\"]"}, 2, "Attentio");
  expect_refused({"--model.graph=" + (folder_ / "none.pt2")}, 3, "none.pt2");
  test::write_file(folder_ / "text.pt2", "a text\n");
  expect_refused({"--model.graph=" + (folder_ / "text.pt2")}, 3, "text.pt2");
  const std::string whole = test::read_file(kDecoder);
  test::write_file(folder_ / "half.pt2", whole.substr(0, whole.size() / 2));
  expect_refused({"--model.graph=" + (folder_ / "half.pt2")}, 3, "half.pt2");
}

}  // namespace
}  // namespace sluice::testing
