// Reads from the environment how a launcher has spread a run over processes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

enum class Launcher : std::uint8_t { kNone, kSluice, kTorchrun, kSlurm, kOpenMpi, kMpich, kByHand };

std::string to_text(Launcher launcher);
// "torchrun has started", or "RANK and WORLD_SIZE name".
std::string has_started(Launcher launcher);

// With k ranks per process, process p runs ranks p k .. p k + k - 1, one per thread.
struct ProcessLayout {
  int num_processes = 1;
  int process = 0;
  int processes_on_machine = 1;
  int local_process = 0;  // index on its machine

  int ranks_per_process(int num_ranks) const { return num_ranks / num_processes; }
  int process_of(int rank, int num_ranks) const { return rank / ranks_per_process(num_ranks); }
  std::vector<int> ranks_of(int of_process, int num_ranks) const;
};

// Unless all processes get equally many ranks, throws Error(kUsage) with the process counts that
// work.
void require_even_ranks(const ProcessLayout& layout, int num_ranks, Launcher launcher);

struct LaunchEnvironment {
  Launcher launcher = Launcher::kNone;
  ProcessLayout layout;
  // Where the processes connect. Without MASTER_ADDR and MASTER_PORT, srun's first host and a port
  // derived from the job number. "" and 0 if unknown.
  std::string master_address;
  int master_port = 0;
  // A name that only this run's processes share: "slurm-1234-0", or "".
  std::string job;
  std::string secret;
  std::string error_file;
  int restart = 0;

  bool one_machine() const { return layout.processes_on_machine == layout.num_processes; }
};

// read_launch_environment() throws Error(kUsage) for variables that are malformed, missing or
// contradictory.
using Environment = std::function<std::optional<std::string>(const std::string& variable)>;
LaunchEnvironment read_launch_environment(const Environment& variable);
LaunchEnvironment read_launch_environment();

// Number of restarts so far, set only by `sluice launch`. The underscore is there because names
// that start with SLUICE_ are configuration keys.
inline constexpr const char* kLaunchRestartVariable = "_SLUICE_LAUNCH_RESTART";

}  // namespace sluice
