// Runs the processes of a run as threads of this process. Each has its own ranks only.
#include "command/process_run.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "checkpoint/manifest.h"
#include "io/step_name.h"
#include "support/checkpoint_folder.h"
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
                               {"data.tokenizer", "bytes"},
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

  // Returns the result or error of each process.
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
  static Endpoints part_of(Endpoints& all, int from, int to) {
    Endpoints part;
    for (int rank = from; rank < to; ++rank) part.push_back(std::move(all[rank]));
    return part;
  }

  const test::TempDirectory folder_;
  RunConfig config_;
  std::optional<StepRange> traced_;
  std::string trace_;  // of the process that logs
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

// Name -> hash of the bytes
std::map<std::string, std::string> content_of(const std::string& path) {
  const Checkpoint checkpoint(path);
  std::map<std::string, std::string> hashes;
  for (const auto* list : {&checkpoint.manifest().weights, &checkpoint.manifest().optimizer}) {
    for (const SavedTensor& tensor : *list) hashes[tensor.name] = tensor.hash;
  }
  return hashes;
}

std::vector<std::string> numbers_in(const std::string& metrics) {
  std::vector<std::string> numbers;
  for (const std::string& line : split(test::read_file(metrics), '\n')) {
    if (line.empty()) continue;
    const nlohmann::json step = nlohmann::json::parse(line);
    numbers.push_back(step.at("step").dump() + " " + step.at("loss").dump() + " " +
                      step.at("grad_norm").dump() + " " + step.at("lr").dump());
  }
  return numbers;
}

TEST_F(ProcessRunTest, ARunThatGoesOnHasTheNumbersOfOneThatWasNeverStopped) {
  testing::internal::CaptureStdout();
  config_.training.steps = 5;
  EXPECT_EQ(train_in_two().first, "5 steps, says so");
  const std::string clean = folder_ / "out/checkpoint/step-00000005";
  config_.checkpoint.folder = folder_ / "again/checkpoint";
  config_.metrics.folder = folder_ / "again";
  for (const std::int64_t steps : {2, 3, 5}) {
    config_.training.steps = steps;
    EXPECT_EQ(train_in_two().first, std::to_string(steps) + " steps, says so");
  }
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(said_, "");
  const std::string resumed = folder_ / "again/checkpoint/step-00000005";
  EXPECT_EQ(content_of(resumed), content_of(clean));
  EXPECT_FALSE(content_of(clean).empty());
  EXPECT_EQ(numbers_in(folder_ / "again/metrics.jsonl"), numbers_in(folder_ / "out/metrics.jsonl"));
  const Manifest last = Checkpoint(resumed).manifest();
  EXPECT_EQ(last.sequence, 5 * 4);
  EXPECT_EQ(last.run, Checkpoint(folder_ / "again/checkpoint/step-00000002").manifest().run);
  EXPECT_NE(last.run, Checkpoint(clean).manifest().run);
}

TEST_F(ProcessRunTest, ARequestToSaveIsCarriedOutAfterTheFirstStepAndTheRunGoesOn) {
  raise(SIGUSR1);
  testing::internal::CaptureStdout();
  EXPECT_EQ(train_in_two().first, "3 steps, says so");
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(test::list_directory(folder_ / "out/checkpoint"),
            (std::set<std::string>{"step-00000001", "step-00000003"}));
  EXPECT_EQ(Checkpoint(folder_ / "out/checkpoint/step-00000001").manifest().sequence, 4);
}

TEST_F(ProcessRunTest, OlderCheckpointsOfTheRunGoAndThoseOfOthersStay) {
  testing::internal::CaptureStdout();
  train_in_two();
  config_.checkpoint.resume = {ResumeFrom::kNone};
  config_.checkpoint.interval = 2;
  config_.checkpoint.keep_latest_k = 1;
  config_.checkpoint.keep_every = 4;
  config_.training.steps = 6;
  EXPECT_EQ(train_in_two().first, "6 steps, says so");
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(test::list_directory(folder_ / "out/checkpoint"),
            (std::set<std::string>{"step-00000003", "step-00000004", "step-00000006"}));
}

// Writes a checkpoint of the run in config_, with as much as is checked before loading.
void leave_checkpoint_of(const RunConfig& config, std::int64_t step, const std::string& data_hash) {
  const ModelSpec spec = plan_of_config(config).model;
  const RunFingerprints made_of = fingerprints_of(config, spec, open_weights(config, spec));
  const std::string path = config.checkpoint.folder + "/" + io::step_name(step);
  Manifest manifest = test::write_checkpoint(path, step);
  manifest.fingerprints = made_of.of;
  manifest.settings = made_of.settings;
  if (!data_hash.empty()) manifest.fingerprints["data"].hash = data_hash;
  test::write_file(path + "/" + kManifestFile, to_json(manifest));
}

TEST_F(ProcessRunTest, ARunWhoseLastStepIsDoneSaysSoAndCreatesNothing) {
  leave_checkpoint_of(config_, 3, "");
  config_.metrics.folder = folder_ / "metrics";
  traced_ = StepRange{.after_resumed = true};
  testing::internal::CaptureStdout();
  const auto [first, second] = train_in_two();
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "the run is finished: " + (folder_ / "out/checkpoint/step-00000003") +
                " has step 3, and training.steps = 3. Raise training.steps for more steps. To "
                "start afresh, use --checkpoint.resume none or another checkpoint.folder.\n");
  EXPECT_EQ(first, "3 steps, says so");
  EXPECT_EQ(second, "3 steps");
  EXPECT_EQ(said_, "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "metrics"));
}

TEST_F(ProcessRunTest, OtherDataIsRefusedAlsoWhereNothingIsLeftToDo) {
  leave_checkpoint_of(config_, 3, std::string(32, '0'));
  const auto [first, second] = train_in_two();
  EXPECT_EQ(first.rfind("the checkpoint belongs to other data: ", 0), 0u) << first;
  EXPECT_EQ(second, first);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/metrics.jsonl"));
  EXPECT_EQ(test::list_directory(folder_ / "out/checkpoint"),
            std::set<std::string>{"step-00000003"});
}

TEST_F(ProcessRunTest, WhatARunThatGoesOnHasBehindItIsNotTraced) {
  leave_checkpoint_of(config_, 3, "");
  config_.training.steps = 20;
  traced_ = StepRange{1, 3};
  EXPECT_EQ(train_in_two().first, "the trace ends with step 3, but the run continues with step 4");
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
  // Only the first 16 MiB are checked before the run, so the bad row is found in step 3.
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
