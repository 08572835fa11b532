#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/run_program.h"
#include "support/temp_directory.h"

namespace sluice::testing {

namespace fs = std::filesystem;
inline const std::string kModel = SLUICE_TEST_DATA "/reference/models/llama_untied";

class TrainCommandTest : public ::testing::Test {
 protected:
  using Options = std::vector<std::string>;

  TrainCommandTest() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "the quick brown fox no. " + std::to_string(i * i) + "\n";
    test::write_file(folder_ / "text.txt", text);
    write_config("path = \"" + kModel + "\"", "local_batch_size = 4",
                 "[parallelism]\npipeline_parallel_degree = 2\n");
  }

  // `model` is a line of [model], `batch` a line of [training], `more` has further sections.
  void write_config(const std::string& model, const std::string& batch,
                    const std::string& more) const {
    test::write_file(config(), "[model]\n" + model + R"(
[data]
files = ["text.txt"]
tokenizer = "bytes"
[training]
steps = 3
microbatch_size = 2
seq_len = 16
)" + batch + R"(
[optimizer]
lr = 1e-3
[checkpoint]
folder = "out/checkpoint"
[metrics]
folder = "out"
)" + more);
  }

  static Options layout(int pp, int dp, int tp = 1) {
    return {"--parallelism.pipeline_parallel_degree=" + std::to_string(pp),
            "--parallelism.data_parallel_degree=" + std::to_string(dp),
            "--parallelism.tensor_parallel_degree=" + std::to_string(tp)};
  }
  static Options both(Options first, const Options& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  std::string config() const { return folder_ / "run.toml"; }
  std::string out() const { return folder_ / "out"; }
  std::string err() const { return folder_ / "err"; }
  std::string printed() const { return folder_ / "printed"; }

  ProgramResult train(std::vector<std::string> overrides = {}) const {
    overrides.insert(overrides.begin(), {"train", config()});
    return run_sluice(overrides);
  }

  // Removes earlier results, so that the run does not resume.
  ProgramResult train_anew(std::vector<std::string> overrides = {}) const {
    fs::remove_all(out());
    return train(std::move(overrides));
  }

  // After the first step of a separate process. Returns its status.
  int stopped_by(const std::vector<int>& signals, const std::string& prefix = "") const {
    return ended_after("--training.steps=1000000", prefix, [&](pid_t child) {
      for (const int signal : signals) {
        kill(child, signal);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }

  // Starts a separate process, calls `act` after its first step, and returns its status. Its stdout
  // goes to printed(), its stderr to err().
  int ended_after(const std::string& options, const std::string& prefix,
                  const std::function<void(pid_t)>& act) const {
    const pid_t child = fork();
    if (child == 0) {
      const std::string line = prefix + " exec " + quoted_for_shell(SLUICE_PROGRAM) + " train " +
                               quoted_for_shell(config()) + " " + options + " >" +
                               quoted_for_shell(printed()) + " 2>" + quoted_for_shell(err());
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    wait_for_metrics();
    act(child);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  void wait_for_metrics() const {
    wait_until([&] { return !test::read_file(out() + "/metrics.jsonl").empty(); },
               std::chrono::milliseconds(20));
  }

  static void wait_until(const std::function<bool()>& holds, std::chrono::milliseconds pause) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!holds() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(pause);
    }
  }

  // Of all weights and optimizer state in a checkpoint, sorted.
  std::string hashes_of_step(const std::string& step) const {
    const nlohmann::json manifest =
        nlohmann::json::parse(test::read_file(out() + "/checkpoint/" + step + "/manifest.json"));
    std::set<std::string> hashes;
    for (const char* list : {"weights", "optimizer"}) {
      for (const nlohmann::json& tensor : manifest.at(list))
        hashes.insert(tensor.at("name").get<std::string>() + " " +
                      tensor.at("hash").get<std::string>());
    }
    std::string text;
    for (const std::string& hash : hashes) text += hash + "\n";
    return text;
  }

  std::string numbers(const std::string& step = "step-00000003") const {
    std::string text;
    for (const nlohmann::json& line : metrics()) {
      text += line.at("loss").dump() + " " + line.at("grad_norm").dump() + " " +
              line.at("tokens").dump() + "\n";
    }
    return text + hashes_of_step(step);
  }

  // Bytes per pipeline rank, predicted by `sluice plan`.
  std::vector<double> predicted_peaks(const Options& options) const {
    const ProgramResult plan = run_sluice(both({"plan", config(), "--json"}, options));
    EXPECT_EQ(plan.exit_code, 0) << plan.err;
    const nlohmann::json memory = nlohmann::json::parse(plan.out).at("memory");
    std::vector<double> peaks;
    for (const nlohmann::json& rank : memory) peaks.push_back(rank.at("total_bytes"));
    return peaks;
  }
  // Bytes per rank in the last step of a new run.
  std::vector<double> measured_peaks(const Options& options) const {
    const ProgramResult result = train_anew(options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (result.exit_code != 0) return {};
    return metrics().back().at("memory_bytes");
  }
  void expect_predicted_peaks(const Options& options, double tolerance) const {
    const std::vector<double> predicted = predicted_peaks(options);
    const std::vector<double> measured = measured_peaks(options);
    ASSERT_EQ(predicted.size(), measured.size());
    for (std::size_t rank = 0; rank < measured.size(); ++rank)
      EXPECT_NEAR(predicted[rank] / measured[rank], 1, tolerance) << "rank " << rank;
  }

  void expect_last_step_is_saved() const {
    const std::vector<nlohmann::json> lines = metrics();
    ASSERT_FALSE(lines.empty());
    char name[32];
    std::snprintf(name, sizeof name, "step-%08d", lines.back()["step"].get<int>());
    EXPECT_EQ(test::list_directory(out() + "/checkpoint"), std::set<std::string>{name});
  }

  std::vector<nlohmann::json> metrics() const {
    std::istringstream lines(test::read_file(out() + "/metrics.jsonl"));
    std::vector<nlohmann::json> objects;
    for (std::string line; std::getline(lines, line);)
      objects.push_back(nlohmann::json::parse(line));
    return objects;
  }

  void expect_refused(const std::vector<std::string>& overrides, int exit_code,
                      const std::string& says) const {
    const ProgramResult result = train(overrides);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.err.rfind("sluice: error: ", 0), 0u) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(out())) << says;
  }

  std::string copied_model() const {
    fs::copy(kModel, folder_ / "model", fs::copy_options::recursive);
    return folder_ / "model";
  }

  const test::TempDirectory folder_;
};

}  // namespace sluice::testing
