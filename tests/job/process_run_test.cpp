// Processes of a run as threads of this one: each has ranks of its own and knows no other's.
#include "job/process_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/text.h"
#include "sluice/parts/log.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

constexpr int kRanks = 4;

class ProcessRunTest : public testing::Test {
 protected:
  ProcessRunTest() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "the quick brown fox no. " + std::to_string(i * i) + "\n";
    test::write_file(folder_ / "text.txt", text);
    const std::string model = SLUICE_TEST_DATA "/reference/models/llama_untied";
    config_ = load_run_config("",
                              {{"model.path", model},
                               {"data.files", "[\"" + (folder_ / "text.txt") + "\"]"},
                               {"training.steps", "3"},
                               {"training.local_batch_size", "4"},
                               {"training.seq_len", "16"},
                               {"parallelism.pipeline_parallel_degree", std::to_string(kRanks)},
                               {"checkpoint.folder", folder_ / "out/checkpoint"},
                               {"metrics.folder", folder_ / "out"}},
                              {});
    set_log_sink([this](LogLevel, std::string_view message) {
      said_ += message;
      said_ += "\n";
    });
  }
  ~ProcessRunTest() override { set_log_sink({}); }

  // Trains with the ranks split into two processes; what each of them returned or threw.
  std::pair<std::string, std::string> train_in_two() {
    Endpoints first = make_local_transports(kRanks), again = make_local_transports(kRanks);
    const auto process = [&](int from, int to) {
      LocalRanks ranks;
      ranks.num_ranks = ranks.on_machine = kRanks;
      for (int rank = from; rank < to; ++rank) ranks.here.push_back(rank);
      ranks.connect = [&first, &again, from, to, calls = 0]() mutable {
        return part_of(calls++ == 0 ? first : again, from, to);
      };
      return std::async(std::launch::async, [this, ranks]() -> std::string {
        try {
          ProcessRun run(config_, plan_of_config(config_), stop_, ranks, traced_);
          const std::int64_t steps = run.train();
          if (run.trace && run.log) trace_ = run.trace->text();
          return std::to_string(steps) + " steps" + (run.log ? ", says so" : "");
        } catch (const Error& error) {
          return error.fact();
        }
      });
    };
    auto here = process(0, 2), there = process(2, kRanks);
    return {here.get(), there.get()};
  }

  using Endpoints = std::vector<std::unique_ptr<Transport>>;
  // Each is taken once, by the process that has its rank.
  static Endpoints part_of(Endpoints& all, int from, int to) {
    Endpoints part;
    for (int rank = from; rank < to; ++rank) part.push_back(std::move(all[rank]));
    return part;
  }

  const test::TempDirectory folder_;
  RunConfig config_;
  std::optional<StepRange> traced_;
  std::string trace_;  // of the process that speaks
  StopSignal stop_;
  std::string said_;
};

TEST_F(ProcessRunTest, AProcessWithoutRank0TrainsAsTheOthersAndSaysNothing) {
  testing::internal::CaptureStdout();
  const auto [first, second] = train_in_two();
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(first, "3 steps, says so");
  EXPECT_EQ(second, "3 steps");
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = out.find("\nstep: ", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 3u) << out;
  EXPECT_EQ(test::list_directory(folder_ / "out/checkpoint"),
            std::set<std::string>{"step-00000003"});
  EXPECT_EQ(said_, "");
}

TEST_F(ProcessRunTest, TheTraceOfTheProcessThatSpeaksHasTheRanksOfAll) {
  traced_ = StepRange{2, 2};
  testing::internal::CaptureStdout();
  train_in_two();
  testing::internal::GetCapturedStdout();
  std::set<int> ranks, steps;
  const nlohmann::json trace = nlohmann::json::parse(trace_, nullptr, false);
  for (const auto& event : trace.value("traceEvents", std::vector<nlohmann::json>())) {
    if (event.at("ph") != "X") continue;
    ranks.insert(event.at("pid").get<int>());
    steps.insert(event.at("args").at("step").get<int>());
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(steps, std::set<int>{2});
}

TEST_F(ProcessRunTest, AFailureInOneProcessSavesTheWeightsOfAllAndIsThrownInEach) {
  // Of the first 16 MiB only is known what is in them: the bad row is met in step 3.
  std::string rows = "{\"input_ids\":[1,2,3],\"x\":\"" + std::string(17 << 20, 'x') + "\"}\n";
  for (int row = 1; row < 8; ++row) rows += "{\"input_ids\":[1,2,3,4]}\n";
  rows += "{\"input_ids\":[1,999]}\n";
  test::write_file(folder_ / "rows.jsonl", rows);
  config_.data.files = {folder_ / "rows.jsonl"};
  config_.data.shuffle = false;
  testing::internal::CaptureStdout();
  const auto [first, second] = train_in_two();
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(first.rfind("input_ids[1] = 999 is outside of the vocabulary", 0), 0u) << first;
  EXPECT_EQ(first, second);
  EXPECT_EQ(test::list_directory(folder_ / "out/checkpoint"),
            std::set<std::string>{"step-00000002"});
}

TEST_F(ProcessRunTest, AStepIsInTheMetricsThoughItsValidationFails) {
  std::string rows = "{\"input_ids\":[1,2,3],\"x\":\"" + std::string(17 << 20, 'x') + "\"}\n";
  for (int row = 1; row < 4; ++row) rows += "{\"input_ids\":[1,2,3,4]}\n";
  rows += "{\"input_ids\":[1,999]}\n";
  test::write_file(folder_ / "rows.jsonl", rows);
  config_.validation.files = {folder_ / "rows.jsonl"};
  config_.validation.interval = 2;
  testing::internal::CaptureStdout();
  const auto [first, second] = train_in_two();
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(first.rfind("input_ids[1] = 999 is outside of the vocabulary", 0), 0u) << first;
  std::vector<nlohmann::json> steps;
  for (const std::string& line : split(test::read_file(folder_ / "out/metrics.jsonl"), '\n')) {
    if (!line.empty()) steps.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps.back().at("step"), 2);
  EXPECT_FALSE(steps.back().contains("validation_loss"));
}

TEST_F(ProcessRunTest, OfTheValidationTheRowsThatItReadsHaveToHaveLabels) {
  const std::string none = "{\"input_ids\":[1,2,3],\"labels\":[-100,-100,-100]}\n";
  const std::string some = "{\"input_ids\":[1,2,3]}\n";
  test::write_file(folder_ / "none.jsonl", none + none + none + none + none);
  test::write_file(folder_ / "some.jsonl", some + some + some + some);
  config_.validation.interval = 3;
  config_.validation.steps = 1;
  testing::internal::CaptureStdout();
  config_.validation.files = {folder_ / "none.jsonl", folder_ / "some.jsonl"};
  EXPECT_EQ(train_in_two().first, "no label of the first 4 rows is counted");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  config_.validation.files = {folder_ / "some.jsonl", folder_ / "none.jsonl"};
  EXPECT_EQ(train_in_two().first, "3 steps, says so");  // the other file is not read
  testing::internal::GetCapturedStdout();
}

}  // namespace
}  // namespace sluice
