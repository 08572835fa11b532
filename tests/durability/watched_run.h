// `sluice train` over four ranks, with its file-system calls recorded, failed or cut short.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/train_fixture.h"
#include "support/file_calls.h"

namespace sluice::testing {

// What fault_preload.cpp does to a run, in its words: "" and 0 for nothing.
struct Faults {
  long kill = 0;
  std::string fail;
  long shortened = 0;
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

  // The calls in the folder `watched` are in log() then.
  ProgramResult watch(const std::string& watched, const Faults& faults,
                      const std::vector<std::string>& overrides) const {
    return run_shell(environment(watched, faults, log()) + command(over_four_ranks(overrides)));
  }

  std::vector<test::FileCall> calls() const { return test::read_calls(log()); }
};

}  // namespace sluice::testing
