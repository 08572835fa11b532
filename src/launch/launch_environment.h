// The processes of a run as the environment describes them, started by `sluice launch`, torchrun,
// srun, mpirun, or by hand with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
//
// Owns: reading and checking the variables. Does not own: the meeting of the processes
// (rendezvous.h). Thread-safety: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

enum class Launcher : std::uint8_t { kNone, kSluice, kTorchrun, kSlurm, kOpenMpi, kMpich, kByHand };

// "sluice launch", "torchrun", "srun", ..
std::string to_text(Launcher launcher);
// "torchrun has started", of variables that were set by hand "RANK and WORLD_SIZE name": processes.
std::string has_started(Launcher launcher);

// The spread of a run over processes. Ranks are spread evenly: with k ranks a process, process p
// runs ranks p k .. p k + k - 1, each on a thread.
struct ProcessLayout {
  int num_processes = 1;
  int process = 0;               // this one
  int processes_on_machine = 1;  // number of processes on this machine
  int local_process = 0;         // this one among them

  // Precondition: the number of ranks is a multiple of num_processes (require_even_ranks).
  int ranks_per_process(int num_ranks) const { return num_ranks / num_processes; }
  int process_of(int rank, int num_ranks) const { return rank / ranks_per_process(num_ranks); }
  std::vector<int> ranks_of(int of_process, int num_ranks) const;
};

// Throws Error(kUsage), naming `launcher`, unless the processes divide the ranks; names the numbers
// of processes that would do.
void require_even_ranks(const ProcessLayout& layout, int num_ranks, Launcher launcher);

struct LaunchEnvironment {
  Launcher launcher = Launcher::kNone;
  ProcessLayout layout;
  // The meeting place of the processes: with `sluice launch` its store, else MASTER_ADDR and
  // MASTER_PORT or, with srun, the first host of its list and a port of the job's number. Empty and
  // 0 where the launcher says nothing.
  std::string master_address;
  int master_port = 0;
  // A name that all processes of this run and no others know, as far as the launcher gives one:
  // "slurm-1234-0", "openmpi-2871459841"; "" without.
  std::string job;
  std::string secret;      // SLUICE_JOB_SECRET; "" without
  std::string error_file;  // TORCHELASTIC_ERROR_FILE; "" without
  int restart = 0;         // number of times that the launcher has restarted the run

  bool one_machine() const { return layout.processes_on_machine == layout.num_processes; }
};

// variable: the value of an environment variable, nothing where it is not set (or empty).
// Throws Error(kUsage) naming the variable: no number, a rank that is not below the number of
// processes, variables that contradict each other, and what is missing: RANK beside WORLD_SIZE, and
// MASTER_ADDR and MASTER_PORT for several machines or for processes by hand.
using Environment = std::function<std::optional<std::string>(const std::string& variable)>;
LaunchEnvironment read_launch_environment(const Environment& variable);
// The environment of this process.
LaunchEnvironment read_launch_environment();

// The variables by which `sluice launch` says that it is the launcher of its own beside RANK,
// LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and SLUICE_JOB_SECRET. (Names
// that start with SLUICE_ are keys of the configuration.) The restart, from 0; its value marks the
// launcher.
inline constexpr const char* kLaunchRestartVariable = "_SLUICE_LAUNCH_RESTART";

}  // namespace sluice
