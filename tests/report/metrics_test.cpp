#include "report/metrics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "report/metrics_file.h"
#include "report/step_pace.h"
#include "sluice/error.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

StepMetrics example() {
  StepMetrics metrics;
  metrics.step = 12;
  metrics.num_steps = 1000;
  metrics.loss = 3.21;
  metrics.grad_norm = 0.91;
  metrics.lr = 3e-4;
  metrics.tokens = 2047;
  metrics.step_seconds = 0.836;
  metrics.bubble_fraction = 0.071;
  metrics.memory_bytes = {100, 558'345'748, 5};
  metrics.rank_seconds = {{0.5, 0.125, 0.0625, 0.03125, 0.015625, 0.265625}, {}};
  return metrics;
}

TEST(MetricsTest, TheLineNamesEveryNumberInTheDocumentedOrder) {
  EXPECT_EQ(
      to_line(example(), false),
      "step: 12/1000  loss: 3.2100  grad_norm: 0.9100  lr: 3.0e-04  tps: 2,449  bubble: 7.1%  "
      "mem: 0.52GiB  ms: 836");
}

StepMetrics with_everything() {
  StepMetrics metrics = example();
  metrics.tokens_are_bytes = true;
  metrics.seconds_left = 187.4;
  return metrics;
}

TEST(MetricsTest, OffATerminalTheLineHasNothingElse) {
  EXPECT_EQ(to_line(with_everything(), false), to_line(example(), false));
}

TEST(MetricsTest, AfterAValidationTheLineHasItsLoss) {
  StepMetrics metrics = example();
  metrics.validation_loss = 2.5;
  EXPECT_EQ(to_line(metrics, false), to_line(example(), false) + "  val_loss: 2.5000");
}

TEST(MetricsTest, AWideTerminalAlsoShowsTimeLeftAndBitsPerByte) {
  EXPECT_EQ(to_line(with_everything(), false, 200),
            to_line(example(), false) + "  eta: 3m07s  bpb: 4.6311");
}

TEST(MetricsTest, TheLineFitsATerminalAndLosesFirstWhatMattersLeast) {
  const StepMetrics metrics = with_everything();
  EXPECT_EQ(to_line(metrics, false, 110),
            "step: 12/1000 loss: 3.2100 grad_norm: 0.91 lr: 3.0e-04 tps: 2,449 bubble: 7.1% mem: "
            "0.52GiB ms: 836 eta: 3m07s");
  EXPECT_EQ(to_line(metrics, false, 80),
            "step: 12/1000 loss: 3.2100 grad_norm: 0.91 lr: 3.0e-04 tps: 2,449 eta: 3m07s");
  EXPECT_EQ(to_line(metrics, false, 66),
            "step: 12/1000 loss: 3.2100 grad_norm: 0.91 lr: 3.0e-04 tps: 2,449");
  EXPECT_EQ(to_line(metrics, false, 40), "step: 12/1000 loss: 3.2100");
  for (int width = 40; width <= 130; ++width) {
    const std::string line = to_line(metrics, false, width);
    EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
    EXPECT_NE(line.find("loss: 3.21"), std::string::npos) << line;
  }
}

TEST(MetricsTest, AnEndlessRunStillFits80Columns) {
  StepMetrics metrics = with_everything();
  metrics.step = 999'999'999;
  metrics.num_steps = 1'000'000'000;
  metrics.loss = 123.4;
  metrics.grad_norm = 1234.5;
  metrics.tokens = 123'456'789;
  metrics.seconds_left = 1e6;
  EXPECT_LE(to_line(metrics, false, 80).size(), 80u) << to_line(metrics, false, 80);
}

TEST(MetricsTest, LittleMemoryHasASmallerUnit) {
  StepMetrics metrics = example();
  metrics.memory_bytes = {100, 3 << 10};
  EXPECT_NE(to_line(metrics, false).find("  mem: 3.00KiB  "), std::string::npos);
  metrics.memory_bytes = {5 << 20};
  EXPECT_NE(to_line(metrics, false).find("  mem: 5.00MiB  "), std::string::npos);
  metrics.memory_bytes = {6 << 20};
  EXPECT_NE(to_line(metrics, false).find("  mem: 0.01GiB  "), std::string::npos);
}

TEST(MetricsTest, ColourOnlyAddsEscapes) {
  std::string line = to_line(example(), true);
  EXPECT_NE(line.find('\033'), std::string::npos);
  for (std::size_t at; (at = line.find('\033')) != std::string::npos;) {
    line.erase(at, line.find('m', at) - at + 1);
  }
  EXPECT_EQ(line, to_line(example(), false));
}

TEST(MetricsTest, TheJsonObjectHasTheDocumentedKeysAndTheFullNumbers) {
  StepMetrics metrics = example();
  metrics.loss = 1.0 / 3.0;
  auto object = nlohmann::json::parse(to_json(metrics));
  EXPECT_EQ(object.size(), 10u);
  EXPECT_EQ(object["step"], 12);
  EXPECT_EQ(object["loss"].get<double>(), 1.0 / 3.0);
  EXPECT_EQ(object["grad_norm"], 0.91);
  EXPECT_EQ(object["lr"], 3e-4);
  EXPECT_EQ(object["tokens"], 2047);
  EXPECT_EQ(object["step_seconds"], 0.836);
  EXPECT_NEAR(object["tokens_per_second"].get<double>(), 2448.6, 0.1);
  EXPECT_EQ(object["bubble_fraction"], 0.071);
  EXPECT_EQ(object["memory_bytes"], (std::vector<std::int64_t>{100, 558'345'748, 5}));

  EXPECT_EQ(object["rank_seconds"].size(), 2u);
  EXPECT_EQ(object["rank_seconds"][0], (nlohmann::json{{"compute", 0.5},
                                                       {"wait_receive", 0.125},
                                                       {"wait_send", 0.0625},
                                                       {"reduction", 0.03125},
                                                       {"optimizer", 0.015625},
                                                       {"other", 0.265625}}));

  metrics.validation_loss = 2.5;
  metrics.parameter_norms = {{"b.weight", 0.5}, {"a.weight", 0.25}};
  object = nlohmann::json::parse(to_json(metrics));
  EXPECT_EQ(object["parameter_grad_norms"],
            (nlohmann::json{{"a.weight", 0.25}, {"b.weight", 0.5}}));
  EXPECT_EQ(object["validation_loss"], 2.5);
}

// Comparing each name with all previous names would take 2 * 10^11 comparisons.
TEST(MetricsTest, NormsOfManyParametersAreWrittenOneByOne) {
  StepMetrics metrics = example();
  metrics.parameter_norms.emplace();
  constexpr int kParameters = 600'000;
  for (int i = 0; i < kParameters; ++i)
    metrics.parameter_norms->emplace_back(
        "model.layers." + std::to_string(1'000'000 + i) + ".weight", 0.5);
  const std::string line = to_json(metrics);
  EXPECT_NE(line.find("\"model.layers.1000000.weight\":0.5,\"model.layers.1000001.weight\":0.5"),
            std::string::npos);
  EXPECT_NE(line.find("\"model.layers.1599999.weight\":0.5}"), std::string::npos);
}

TEST(MetricsTest, TheBubbleIsTheShareOfTimeThatNoRankComputes) {
  EXPECT_DOUBLE_EQ(bubble_fraction(6.0, 4, 2.0), 0.25);
  EXPECT_EQ(bubble_fraction(8.1, 4, 2.0), 0.0);
}

TEST(MetricsTest, DurationsHaveTheTwoLargestUnits) {
  EXPECT_EQ(duration_text(0.4), "0s");
  EXPECT_EQ(duration_text(59.6), "1m00s");
  EXPECT_EQ(duration_text(3725), "1h02m");
  EXPECT_EQ(duration_text(100'000), "1d03h");
}

TEST(MetricsTest, TheFirstStepEveryNthAndTheLastAreLogged) {
  std::vector<std::int64_t> logged;
  for (std::int64_t step = 1; step <= 11; ++step) {
    if (is_logged(step, 11, 5)) logged.push_back(step);
  }
  EXPECT_EQ(logged, (std::vector<std::int64_t>{1, 5, 10, 11}));
}

TEST(MetricsTest, TimeLeftForgetsTheFirstStepOnceThereIsAnother) {
  TimeLeft left;
  EXPECT_EQ(left.after(0, 10), std::nullopt);
  left.add_step(5.0);
  EXPECT_DOUBLE_EQ(left.after(1, 10).value(), 45.0);
  left.add_step(1.0);
  left.add_step(2.0);
  EXPECT_DOUBLE_EQ(left.after(3, 10).value(), 10.5);
}

TEST(MetricsTest, ANewRunReplacesTheFileAndEachLineIsAnObject) {
  const test::TempDirectory directory;
  const std::string folder = directory / "a/b";
  { MetricsFile(folder).append(example()); }
  {
    MetricsFile file(folder);
    file.append(example());
    file.append(example());
  }
  std::ifstream file(folder + "/metrics.jsonl");
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines)
    EXPECT_EQ(nlohmann::json::parse(line)["step"], 12);
  EXPECT_EQ(lines, 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(MetricsTest, AFileThatWasRemovedOrReplacedIsFoundGone) {
  const test::TempDirectory directory;
  MetricsFile file(directory.str());
  file.append(example());
  EXPECT_NO_THROW(file.require_in_place());
  std::filesystem::remove(file.path());
  Error error = test::error_of([&] { file.require_in_place(); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.where(), file.path());
  test::write_file(file.path(), "another's");
  error = test::error_of([&] { file.require_in_place(); });
  EXPECT_EQ(error.where(), file.path());
}

TEST(MetricsTest, AFolderThatCannotBeMadeIsAUsageError) {
  const test::TempDirectory directory;
  test::write_file(directory / "file", "x");
  try {
    const MetricsFile file(directory / "file/metrics");
    FAIL() << "created";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("metrics.folder"), std::string::npos);
  }
}

TEST(MetricsTest, AFolderInThePlaceOfTheFileIsFoundWithoutCreatingAnything) {
  const test::TempDirectory directory;
  MetricsFile::require_free_place(directory / "new/folder");
  EXPECT_EQ(test::list_directory(directory.str()), std::set<std::string>());
  std::filesystem::create_directories(directory / "metrics.jsonl");
  const Error error = test::error_of([&] { MetricsFile::require_free_place(directory.str()); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.where(), directory / "metrics.jsonl");
  EXPECT_FALSE(error.remedy().empty());
}

}  // namespace
}  // namespace sluice
