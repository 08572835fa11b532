// tests/command/data/make_graphs.py prints the expected results of Python's training.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "command/job.h"
#include "io/step_name.h"
#include "plan/predict/layer_times.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using nlohmann::json;
using test::error_of;

constexpr int kRows = 12;

json image_row(int row) {
  std::vector<std::vector<std::vector<double>>> pixels(3);
  for (int c = 0; c < 3; ++c) {
    pixels[c].resize(8);
    for (int y = 0; y < 8; ++y)
      for (int x = 0; x < 8; ++x)
        pixels[c][y].push_back((37 * (64 * c + 8 * y + x) + 11 * row) % 17 / 8.0 - 1);
  }
  return {{"pixel_values", pixels}, {"labels", row % 5}, {"note", "of no use"}};
}

// Every pair of rows has its own lengths.
json translation_row(int row) {
  json ids = json::array(), decoder = json::array(), labels = json::array();
  for (int i = 0; i < 3 + row / 2 % 3; ++i) ids.push_back((3 * i + 5 * row) % 11);
  for (int i = 0; i < 2 + row / 2 % 2; ++i) {
    decoder.push_back((7 * i + row) % 11);
    labels.push_back(i == 0 && row % 3 == 0 ? -100 : (i + 2 * row) % 11);
  }
  return {{"input_ids", ids}, {"decoder_input_ids", decoder}, {"labels", labels}};
}

json modes_row(int row) {
  std::vector<std::vector<double>> features(8);
  for (int i = 0; i < 16; ++i) features[i / 2].push_back((5 * i + 3 * row) % 13 / 4.0 - 1.5);
  return {{"features", features}, {"target", row % 7 / 2.0}};
}

struct Quiet {
  Quiet() { testing::internal::CaptureStdout(); }
  ~Quiet() { testing::internal::GetCapturedStdout(); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

class GraphDataRunTest : public testing::Test {
 protected:
  void write_rows(const std::string& graph) const {
    std::string text;
    for (int row = 0; row < kRows; ++row)
      text += (graph == "images"  ? image_row(row)
               : graph == "modes" ? modes_row(row)
                                  : translation_row(row))
                  .dump() +
              "\n";
    test::write_file(rows(), text);
  }
  std::string rows() const { return folder_ / "rows.jsonl"; }

  RunConfig config(const std::string& graph, const Overrides& overrides = {},
                   const std::string& out = "out") const {
    Overrides all = {{"model.graph", SLUICE_TEST_DATA "/command/data/" + graph + ".pt2"},
                     {"data.files", "[\"" + rows() + "\"]"},
                     {"data.shuffle", "false"},
                     {"training.steps", "3"},
                     {"training.microbatch_size", "2"},
                     {"training.local_batch_size", "4"},
                     {"optimizer.lr", "1e-2"},
                     {"optimizer.weight_decay", "0"},
                     {"optimizer.max_norm", "0"},
                     {"parallelism.pipeline_parallel_degree", "1"},
                     {"parallelism.pipeline_parallel_schedule", "1F1B"},
                     {"metrics.log_freq", "1"},
                     {"checkpoint.folder", folder_ / (out + "/checkpoint")},
                     {"metrics.folder", folder_ / out}};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return load_run_config("", all, {});
  }

  std::vector<json> train(const RunConfig& config) {
    {
      const Quiet quiet;
      StopSignal stop;
      TrainingJob job(config, stop);
      job.train();
      EXPECT_EQ(job.close(), 0);
    }
    std::vector<json> steps;
    for (const std::string& line :
         split(test::read_file(config.metrics.folder + "/metrics.jsonl"), '\n'))
      if (!line.empty()) steps.push_back(json::parse(line));
    return steps;
  }
  static std::vector<double> numbers(const std::vector<json>& steps, const std::string& key) {
    std::vector<double> found;
    for (const json& step : steps) found.push_back(step.at(key).get<double>());
    return found;
  }
  static void expect_losses(const std::vector<json>& steps, const std::vector<double>& expected) {
    ASSERT_EQ(steps.size(), expected.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      EXPECT_NEAR(steps[i].at("loss").get<double>(), expected[i], 1e-5) << "step " << i + 1;
  }

  const test::TempDirectory folder_;
};

const std::vector<double> kImageLosses = {2.172619, 1.585484, 1.473433};
const std::vector<double> kModesLosses = {0.748963, 3.11564, 0.339826};
constexpr double kModesEvaluation = 1.667355;  // with the weights after these steps
const std::vector<double> kTranslationLosses = {2.541196, 2.434444, 2.451855};

TEST_F(GraphDataRunTest, ImagesTrainAsInPythonAndCountAsRows) {
  write_rows("images");
  const std::vector<json> steps = train(config("images"));
  expect_losses(steps, kImageLosses);
  EXPECT_EQ(numbers(steps, "tokens"), (std::vector<double>{4, 4, 4}));
}

TEST_F(GraphDataRunTest, PairsOfSequencesTrainAsInPythonAndCountTheirLabels) {
  write_rows("translation");
  const std::vector<json> steps = train(config("translation"));
  expect_losses(steps, kTranslationLosses);
  // Rows have two labels, later three. Every third row has one label less.
  EXPECT_EQ(numbers(steps, "tokens"), (std::vector<double>{8, 9, 9}));
}

TEST_F(GraphDataRunTest, StagesAndReplicasTrainTheSame) {
  for (const auto& [graph, losses] :
       {std::pair{"images", kImageLosses}, std::pair{"translation", kTranslationLosses}}) {
    SCOPED_TRACE(graph);
    write_rows(graph);
    const std::vector<json> whole = train(config(graph, {}, std::string(graph) + "-whole"));
    const std::vector<json> staged = train(config(
        graph, {{"parallelism.pipeline_parallel_degree", "2"}}, std::string(graph) + "-stages"));
    EXPECT_EQ(numbers(staged, "loss"), numbers(whole, "loss"));
    // Each replica has one microbatch. The token count needs a sum over both replicas.
    const std::vector<json> replicas = train(config(
        graph, {{"parallelism.data_parallel_degree", "2"}, {"training.local_batch_size", "2"}},
        std::string(graph) + "-replicas"));
    expect_losses(replicas, losses);
    EXPECT_EQ(numbers(replicas, "tokens"), numbers(whole, "tokens"));
  }
}

TEST_F(GraphDataRunTest, AShuffledRunThatGoesOnHasTheNumbersOfOneThatNeverStopped) {
  write_rows("images");
  const Overrides shuffled = {{"data.shuffle", "true"}, {"training.seed", "9"}};
  const std::vector<double> whole = numbers(train(config("images", shuffled)), "loss");
  RunConfig parts = config("images", shuffled, "parts");
  for (const std::int64_t steps : {1, 3}) {
    parts.training.steps = steps;
    EXPECT_EQ(numbers(train(parts), "loss"),
              std::vector<double>(whole.begin(), whole.begin() + steps));
  }
  EXPECT_NE(whole, numbers(train(config("images", {}, "in-order")), "loss"));
}

TEST_F(GraphDataRunTest, EvaluationTakesEveryRowOnceInAnyLayout) {
  for (const std::string graph : {"images", "translation"}) {
    SCOPED_TRACE(graph);
    write_rows(graph);
    // The last batch of five has two rows, and with this size a microbatch has one row.
    const RunConfig whole = config(graph, {{"training.local_batch_size", "10"}});
    const Evaluation evaluation = evaluate(whole, plan_of_config(whole), "");
    EXPECT_EQ(evaluation.tokens, graph == "images" ? 12 : 26);
    EXPECT_TRUE(std::isfinite(evaluation.loss));
    const RunConfig other = config(graph, {{"training.local_batch_size", "4"},
                                           {"parallelism.data_parallel_degree", "2"},
                                           {"parallelism.pipeline_parallel_degree", "2"}});
    const Evaluation again = evaluate(other, plan_of_config(other), "");
    EXPECT_EQ(again.tokens, evaluation.tokens);
    EXPECT_EQ(again.loss, evaluation.loss);
  }
}

TEST_F(GraphDataRunTest, ValidationIsOfRowsToo) {
  write_rows("images");
  const RunConfig validated = config("images", {{"validation.files", "[\"" + rows() + "\"]"},
                                                {"validation.interval", "3"},
                                                {"validation.steps", "1"}});
  const std::vector<json> steps = train(validated);
  EXPECT_GT(steps.back().at("validation_loss").get<double>(), 0);
}

// The training graph has one more head, uses batch statistics, and has no skip connection.
TEST_F(GraphDataRunTest, AnotherGraphForEvaluationRunsInEveryLayout) {
  write_rows("modes");
  const std::vector<Overrides> layouts = {
      {},
      {{"parallelism.pipeline_parallel_degree", "2"}},
      {{"parallelism.pipeline_parallel_degree", "4"},
       {"parallelism.pipeline_parallel_cuts", "[\"norm\", \"blocks.0\", \"blocks.1.up\"]"}}};
  std::vector<double> evaluated_here;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    Overrides own = layouts[i];
    const std::string out = "out" + std::to_string(i);
    own.insert(own.end(), {{"validation.files", "[\"" + rows() + "\"]"},
                           {"validation.interval", "3"},
                           {"training.activation_checkpoint", i == 1 ? "full" : "none"}});
    const RunConfig run = config("modes", own, out);
    const std::vector<json> steps = train(run);
    expect_losses(steps, kModesLosses);
    const double evaluated =
        evaluate(run, plan_of_config(run), run.checkpoint.folder + "/step-00000003").loss;
    EXPECT_NEAR(evaluated, steps.back().at("validation_loss").get<double>(), 1e-6) << i;
    EXPECT_NEAR(evaluated, kModesEvaluation, 1e-5) << i;
    evaluated_here.push_back(evaluated);
  }
  const RunConfig run = config("modes", {}, "out0");
  EXPECT_EQ(evaluate(run, plan_of_config(run), run.checkpoint.folder + "/step-00000003").counted,
            "rows");
  EXPECT_EQ(evaluated_here, std::vector<double>(3, evaluated_here.front()));
  const RunConfig replicas = config("modes", {{"parallelism.pipeline_parallel_degree", "2"},
                                              {"parallelism.data_parallel_degree", "2"},
                                              {"training.local_batch_size", "2"}});
  EXPECT_NEAR(
      evaluate(replicas, plan_of_config(replicas), folder_ / "out0/checkpoint/step-00000003").loss,
      kModesEvaluation, 1e-5);
}

TEST_F(GraphDataRunTest, AStageThatBeginsWhereEvaluationHasNoLayerTrainsAndIsNotEvaluated) {
  write_rows("modes");
  Overrides own = {{"parallelism.pipeline_parallel_degree", "2"},
                   {"parallelism.pipeline_parallel_split_points", "[\"aside\"]"}};
  const RunConfig trained = config("modes", own);
  expect_losses(train(trained), kModesLosses);
  const Error refused = error_of([&] { evaluate(trained, plan_of_config(trained), ""); });
  EXPECT_EQ(refused.kind(), ErrorKind::kUsage);
  EXPECT_EQ(refused.fact(), "stage 1 starts at 'aside', where the evaluation graph cannot be cut");
  own.insert(own.end(),
             {{"validation.files", "[\"" + rows() + "\"]"}, {"validation.interval", "3"}});
  EXPECT_EQ(error_of([&] { plan_of_config(config("modes", own)); }).fact(), refused.fact());
}

TEST_F(GraphDataRunTest, WhatIsNoLossIsRefusedBeforeAnythingStarts) {
  write_rows("images");
  const auto refusal = [&](const std::string& graph, const std::string& output) {
    const RunConfig asked = config(graph, {{"model.loss_output", output}});
    const Error error = error_of([&] { plan_of_config(asked); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.where(), "--model.loss_output");
    return error.fact();
  };
  EXPECT_EQ(refusal("images", "logits"),
            "the result 'logits' of the graph is [rows, 5], but a causal loss needs [rows, length, "
            "vocabulary]");
  EXPECT_EQ(refusal("translation", "count"),
            "the loss 'count' of the graph depends on no parameter");
}

TEST_F(GraphDataRunTest, RowsThatDoNotFitAreRefusedBeforeTheFirstStep) {
  write_rows("images");
  StopSignal stop;
  json row = image_row(0);
  row.erase("labels");
  test::write_file(rows(), image_row(1).dump() + "\n" + row.dump() + "\n");
  const Error missing = error_of([&] { TrainingJob job(config("images"), stop); });
  EXPECT_EQ(missing.kind(), ErrorKind::kInput);
  EXPECT_EQ(missing.where(), rows() + ":2");
  EXPECT_EQ(missing.fact(), "the row has no 'labels', an input of the model");

  row = image_row(0);
  row["pixel_values"].erase(2);
  test::write_file(rows(), row.dump() + "\n");
  EXPECT_EQ(error_of([&] { TrainingJob job(config("images"), stop); }).fact(),
            "'pixel_values' has a list of 2 in its dimension 1, where 3 belong");

  row = image_row(0);
  row["labels"] = 5;
  test::write_file(rows(), image_row(1).dump() + "\n" + row.dump() + "\n");
  const Error label = error_of([&] { TrainingJob job(config("images"), stop); });
  EXPECT_EQ(label.fact(), "5 in 'labels' is outside of the vocabulary of 5");
  EXPECT_EQ(label.where(), rows() + ":2");

  test::write_file(folder_ / "rows.txt", "text");
  const RunConfig text = config("images", {{"data.files", "[\"" + (folder_ / "rows.txt") + "\"]"}});
  const Error format = error_of([&] { TrainingJob job(text, stop); });
  EXPECT_EQ(format.kind(), ErrorKind::kUsage);
  EXPECT_EQ(format.remedy(), "give .jsonl rows with these fields");
}

TEST_F(GraphDataRunTest, RowsOfOneMicrobatchWithOtherSizesAreNamed) {
  test::write_file(rows(), translation_row(0).dump() + "\n" + translation_row(2).dump() + "\n");
  StopSignal stop;
  const RunConfig uneven = config("translation", {{"training.local_batch_size", "2"}});
  const Error error = error_of([&] {
    const Quiet quiet;
    TrainingJob job(uneven, stop);
    job.train();
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(error.fact().find(
                "'input_ids' has the shape [4], but [3] in the first row of the microbatch, " +
                rows() + ":1"),
            std::string::npos)
      << error.what();
  EXPECT_NE(std::string(error.what()).find("step 1, " + rows() + ":2"), std::string::npos)
      << error.what();
}

TEST_F(GraphDataRunTest, LayersAreMeasuredWithMadeUpRows) {
  for (const std::string graph : {"images", "translation"}) {
    write_rows(graph);
    const RunConfig measured = config(graph, {{"parallelism.pipeline_parallel_degree", "2"},
                                              {"parallelism.partition", "measured"}});
    const LayerTimes times =
        parse_layer_times(measure_machine(measured, 0.05).times, "the measurement");
    ASSERT_GT(times.layers.size(), 2u) << graph;
    for (const LayerTime& layer : times.layers) EXPECT_GT(layer.forward, 0) << layer.name;
  }
}

}  // namespace
}  // namespace sluice
