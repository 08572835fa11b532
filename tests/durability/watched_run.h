#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/train_fixture.h"
#include "support/file_calls.h"

namespace sluice::testing {

// Settings of fault_preload.cpp. "" and 0 mean no fault.
struct Faults {
  long kill = 0;
  std::string fail;
  long shortened = 0;
  bool no_exchange = false;
};

class WatchedRunTest : public TrainCommandTest {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the runtime of a sanitizer must be the first library of a program";
#endif
  }

  std::string checkpoints() const { return out() + "/checkpoint"; }
  std::string log() const { return folder_ / "calls"; }
  std::string step_path(int step) const { return checkpoints() + "/" + step_name(step); }
  static std::string step_name(int step) {
    char name[32];
    std::snprintf(name, sizeof name, "step-%08d", step);
    return name;
  }

  static std::string environment(const std::string& watched, const Faults& faults,
                                 const std::string& log) {
    std::string text = "env LD_PRELOAD=" + quoted_for_shell(FAULT_PRELOAD) +
                       " FAULT_PRELOAD_FOLDER=" + quoted_for_shell(fs::weakly_canonical(watched)) +
                       " FAULT_PRELOAD_LOG=" + quoted_for_shell(log);
    if (faults.kill > 0) text += " FAULT_PRELOAD_KILL=" + std::to_string(faults.kill);
    if (!faults.fail.empty()) text += " FAULT_PRELOAD_FAIL=" + faults.fail;
    if (faults.shortened > 0) text += " FAULT_PRELOAD_SHORT=" + std::to_string(faults.shortened);
    if (faults.no_exchange) text += " FAULT_PRELOAD_NO_EXCHANGE=1";
    return text + " ";
  }

  static std::string command(const std::vector<std::string>& arguments) {
    std::string line = quoted_for_shell(SLUICE_PROGRAM);
    for (const std::string& argument : arguments) line += " " + quoted_for_shell(argument);
    return line;
  }

  std::vector<std::string> over_four_ranks(const std::vector<std::string>& overrides) const {
    std::vector<std::string> arguments = {"train", config(),
                                          "--parallelism.pipeline_parallel_degree=4"};
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    return arguments;
  }

  ProgramResult train_four(const std::vector<std::string>& overrides) const {
    return run_sluice(over_four_ranks(overrides));
  }

  // Records the calls below `watched` in log().
  ProgramResult watch(const std::string& watched, const Faults& faults,
                      const std::vector<std::string>& overrides) const {
    return run_shell(environment(watched, faults, log()) + command(over_four_ranks(overrides)));
  }

  std::vector<test::FileCall> calls() const { return test::read_calls(log()); }

  // The steps that `sluice checkpoint list` reports as ok, and the reasons for the others.
  struct Listed {
    std::set<int> ok;
    std::string others;
  };
  Listed listed() const {
    return listed_in(run_sluice({"checkpoint", "list", checkpoints(), "--json"}));
  }
  static Listed listed_in(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    Listed found;
    const nlohmann::json listed = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_TRUE(listed.is_array()) << result.out;
    if (!listed.is_array()) return found;
    for (const nlohmann::json& one : listed) {
      if (one.at("ok").get<bool>()) {
        found.ok.insert(one.at("step").get<int>());
      } else {
        found.others +=
            one.at("path").get<std::string>() + ": " + one.at("reason").get<std::string>() + "\n";
      }
    }
    return found;
  }

  void keep_a_copy(const std::string& name) const { copy_folder(out(), folder_ / name); }
  void restore(const std::string& name) const { copy_folder(folder_ / name, out()); }
  static void copy_folder(const std::string& from, const std::string& to) {
    fs::remove_all(to);
    fs::copy(from, to, fs::copy_options::recursive);
  }

  // Expects exactly the checkpoints of the uninterrupted run `name`, bit by bit.
  // `of_any_generation` allows another number of restarts.
  void expect_same_checkpoints_as(const std::string& name, const std::string& after,
                                  bool of_any_generation) const {
    EXPECT_EQ(difference(comparable((folder_ / name) + "/checkpoint", of_any_generation),
                         comparable(checkpoints(), of_any_generation)),
              "")
        << after;
  }

  // Also compares the metrics.
  void expect_same_as(const std::string& name, const std::string& after) const {
    expect_same_checkpoints_as(name, after, false);
    EXPECT_EQ(what_was_computed(out()), what_was_computed(folder_ / name)) << after;
  }

  // The files of a folder without the random run name.
  static test::Tree comparable(const std::string& folder, bool of_any_generation = false) {
    test::Tree tree = test::read_tree(folder);
    for (auto& [path, node] : tree) {
      if (!path.ends_with("/manifest.json")) continue;
      nlohmann::json manifest = nlohmann::json::parse(*node.content);
      EXPECT_EQ(manifest.erase("run") + manifest.erase("hash"), 2u) << path;
      if (of_any_generation) {
        EXPECT_EQ(manifest.erase("generation"), 1u) << path;
      }
      node.content = std::make_shared<const std::string>(manifest.dump());
    }
    return tree;
  }

  // Returns the lines of metrics.jsonl without times.
  static std::vector<std::string> what_was_computed(const std::string& folder) {
    std::istringstream lines(test::read_file(folder + "/metrics.jsonl"));
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json step = nlohmann::json::parse(line);
      found.push_back(nlohmann::json::array({step.at("step"), step.at("loss"), step.at("grad_norm"),
                                             step.at("lr"), step.at("tokens")})
                          .dump());
    }
    return found;
  }
};

// Chooses about `count` calls, evenly spread. Always includes the calls around each rename to a
// final name, and around each marker.
inline std::vector<long> sampled_calls(const std::vector<test::FileCall>& calls,
                                       std::size_t count) {
  std::set<long> chosen;
  for (const test::FileCall& call : calls) {
    const std::string& to = call.name == "rename" ? call.other : call.path;
    const std::string name = to.substr(to.rfind('/') + 1);
    const bool commits = call.name == "rename" && name.starts_with("step-");
    const bool marks =
        call.name == "open" && name == "manifest.json" && to.find("/.step-") == std::string::npos;
    if (commits || marks) chosen.insert({call.number, call.number + 1, call.number + 3});
  }
  for (std::size_t i = 0; chosen.size() < count && i < count; ++i)
    chosen.insert(static_cast<long>(1 + i * (calls.size() - 1) / (count - 1)));
  return {chosen.begin(), chosen.end()};
}

}  // namespace sluice::testing
