#include "job/launch_environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "base/words.h"
#include "job/slurm_lists.h"
#include "job/socket.h"
#include "sluice/error.h"

namespace sluice {
namespace {

const detail::Words<Launcher> kLaunchers = {{"no launcher", Launcher::kNone},
                                            {"sluice launch", Launcher::kSluice},
                                            {"torchrun", Launcher::kTorchrun},
                                            {"srun", Launcher::kSlurm},
                                            {"mpirun", Launcher::kOpenMpi},
                                            {"mpiexec", Launcher::kMpich},
                                            {"RANK and WORLD_SIZE", Launcher::kByHand}};

constexpr int kMaxProcesses = 1 << 20;

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "environment", .remedy = remedy});
}

class Variables {
 public:
  Variables(const Environment& variable, Launcher launcher)
      : variable_(variable), launcher_(launcher) {}

  std::optional<std::string> text(const std::string& name) const {
    auto value = variable_(name);
    return value && value->empty() ? std::nullopt : value;
  }
  std::string text_or_empty(const std::string& name) const { return text(name).value_or(""); }
  std::string required(const std::string& name) const {
    if (auto value = text(name)) return *value;
    const std::string who = launcher_ == Launcher::kByHand
                                ? "this is one of several processes that were started by hand"
                                : has_started(launcher_) + " this process";
    refuse(name + " is not set, although " + who,
           launcher_ == Launcher::kByHand
               ? "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in every process, or none"
               : "set it, or start the run with 'sluice launch'");
  }
  std::optional<int> number(const std::string& name, int min, int max) const {
    const auto value = text(name);
    return value ? std::optional<int>(parsed(name, *value, min, max)) : std::nullopt;
  }
  int required_number(const std::string& name, int min, int max) const {
    return parsed(name, required(name), min, max);
  }

 private:
  static int parsed(const std::string& name, const std::string& value, int min, int max) {
    int number = 0;
    const char* const end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc() || rest != end || number < min || number > max) {
      refuse(formatted("{} = '{}' is not a whole number from {} to {}", name, value, min, max),
             "set it to such a number, or unset it");
    }
    return number;
  }

  const Environment& variable_;
  const Launcher launcher_;
};

bool is_set(const Environment& variable, const std::string& name) {
  const auto value = variable(name);
  return value && !value->empty();
}

// srun may start mpirun, and anything may start torchrun: the innermost launcher counts.
Launcher launcher_of(const Environment& variable) {
  if (is_set(variable, kLaunchRestartVariable)) return Launcher::kSluice;
  if (is_set(variable, "TORCHELASTIC_RUN_ID")) return Launcher::kTorchrun;
  if (is_set(variable, "OMPI_COMM_WORLD_SIZE")) return Launcher::kOpenMpi;
  // SLURM_STEP_NUM_TASKS is set only in a step. SLURM_PROCID is also set in a batch script.
  const bool slurm = is_set(variable, "SLURM_STEP_NUM_TASKS") && is_set(variable, "SLURM_PROCID");
  if (is_set(variable, "PMI_SIZE")) {
    // `srun --mpi=pmi2` and MPICH's mpiexec both set PMI and SLURM variables, which agree only
    // under srun.
    const bool same = variable("PMI_SIZE") == variable("SLURM_STEP_NUM_TASKS") &&
                      variable("PMI_RANK") == variable("SLURM_PROCID");
    return slurm && same ? Launcher::kSlurm : Launcher::kMpich;
  }
  if (slurm) return Launcher::kSlurm;
  const auto world = variable("WORLD_SIZE");
  if ((world && !world->empty() && *world != "1") || is_set(variable, "RANK"))
    return Launcher::kByHand;
  return Launcher::kNone;
}

struct Names {
  std::string size, rank, local_size, local_rank;
};
const Names kTorchNames = {"WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK"};

ProcessLayout read_layout(const Variables& variables, const Names& names) {
  ProcessLayout layout;
  layout.num_processes = variables.required_number(names.size, 1, kMaxProcesses);
  layout.process = variables.required_number(names.rank, 0, layout.num_processes - 1);
  layout.processes_on_machine =
      variables.required_number(names.local_size, 1, layout.num_processes);
  layout.local_process =
      variables.required_number(names.local_rank, 0, layout.processes_on_machine - 1);
  return layout;
}

void read_master(const Variables& variables, LaunchEnvironment& environment, bool required) {
  const auto text = [&](const std::string& name) {
    return required ? variables.required(name) : variables.text_or_empty(name);
  };
  if (const std::string address = text("MASTER_ADDR"); !address.empty())
    environment.master_address = address;
  if (required || variables.text("MASTER_PORT"))
    environment.master_port = variables.required_number("MASTER_PORT", 1, 65535);
}

// Below the usual ephemeral ports. All processes of a Slurm step compute the same port.
int port_of_job(int job, int step) { return 20000 + (job * 31 + step) % 10000; }

void read_slurm(const Variables& variables, LaunchEnvironment& environment) {
  ProcessLayout& layout = environment.layout;
  layout.num_processes = variables.required_number("SLURM_STEP_NUM_TASKS", 1, kMaxProcesses);
  layout.process = variables.required_number("SLURM_PROCID", 0, layout.num_processes - 1);
  const std::string per_node = variables.text_or_empty("SLURM_STEP_TASKS_PER_NODE");
  const int node = variables.number("SLURM_NODEID", 0, kMaxProcesses).value_or(0);
  const int nodes = variables.number("SLURM_STEP_NUM_NODES", 1, kMaxProcesses).value_or(1);
  if (per_node.empty() && nodes == 1) {
    layout.processes_on_machine = layout.num_processes;
  } else {
    const auto counts = slurm_counts(variables.required("SLURM_STEP_TASKS_PER_NODE"));
    if (!counts || node >= static_cast<int>(counts->size()) ||
        (*counts)[static_cast<std::size_t>(node)] > layout.num_processes) {
      refuse(formatted("SLURM_STEP_TASKS_PER_NODE = '{}' has no entry for node {} (SLURM_NODEID)",
                       per_node, node),
             "start the run with srun, or set neither");
    }
    layout.processes_on_machine = (*counts)[static_cast<std::size_t>(node)];
  }
  layout.local_process =
      variables.required_number("SLURM_LOCALID", 0, layout.processes_on_machine - 1);
  const int job = variables.required_number("SLURM_JOB_ID", 0, 0x7fffffff);
  const auto step = variables.text_or_empty("SLURM_STEP_ID");
  environment.job = formatted("slurm-{}-{}", job, step.empty() ? "0" : step);
  environment.restart = variables.number("SLURM_RESTART_COUNT", 0, kMaxProcesses).value_or(0);
  for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (environment.master_address.empty())
      environment.master_address = first_slurm_host(variables.text_or_empty(list));
  }
  int step_number = 0;
  std::from_chars(step.data(), step.data() + step.size(), step_number);
  environment.master_port = port_of_job(job % 1'000'000, step_number % 1000);
  read_master(variables, environment, false);
}

void read_open_mpi(const Variables& variables, LaunchEnvironment& environment) {
  environment.layout =
      read_layout(variables, {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                              "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"});
  for (const char* name :
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"}) {
    const std::string job = variables.text_or_empty(name);
    if (environment.job.empty() && !job.empty()) environment.job = "openmpi-" + job;
  }
  read_master(variables, environment, !environment.one_machine() || environment.job.empty());
}

void read_mpich(const Variables& variables, LaunchEnvironment& environment) {
  environment.layout =
      read_layout(variables, {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"});
  const std::string job = variables.text_or_empty("PMI_JOBID");
  if (!job.empty()) environment.job = "mpich-" + job;
  read_master(variables, environment, !environment.one_machine());
}

void read_by_hand(const Variables& variables, LaunchEnvironment& environment) {
  ProcessLayout& layout = environment.layout;
  layout.num_processes = variables.required_number("WORLD_SIZE", 1, kMaxProcesses);
  layout.process = variables.required_number("RANK", 0, layout.num_processes - 1);
  const bool alone = layout.num_processes == 1;
  read_master(variables, environment, !alone);
  const auto local_size = variables.number("LOCAL_WORLD_SIZE", 1, layout.num_processes);
  const bool all_here = alone || is_loopback(environment.master_address);
  if (local_size && all_here && *local_size != layout.num_processes) {
    refuse(formatted(
               "LOCAL_WORLD_SIZE = {} and WORLD_SIZE = {} mean several machines, but MASTER_ADDR "
               "= '{}' means this one",
               *local_size, layout.num_processes, environment.master_address),
           "set MASTER_ADDR to the machine of process 0");
  }
  layout.processes_on_machine = local_size.value_or(all_here ? layout.num_processes : 1);
  const auto local = variables.number("LOCAL_RANK", 0, layout.processes_on_machine - 1);
  layout.local_process = local.value_or(environment.one_machine() ? layout.process : 0);
}

// Variables that the user sets must agree with the launcher's.
void require_same(const Variables& variables, const LaunchEnvironment& environment) {
  const auto check = [&](const std::string& name, int said) {
    const auto by_hand = variables.number(name, 0, kMaxProcesses);
    if (!by_hand || *by_hand == said) return;
    refuse(formatted("{} = {} contradicts {}, which sets {}", name, *by_hand,
                     to_text(environment.launcher), said),
           "unset " + name);
  };
  check("WORLD_SIZE", environment.layout.num_processes);
  check("RANK", environment.layout.process);
}

}  // namespace

std::string to_text(Launcher launcher) { return detail::word_of(kLaunchers, launcher); }

std::string has_started(Launcher launcher) {
  return to_text(launcher) + (launcher == Launcher::kByHand ? " name" : " has started");
}

std::vector<int> ProcessLayout::ranks_of(int of_process, int num_ranks) const {
  std::vector<int> ranks(static_cast<std::size_t>(ranks_per_process(num_ranks)));
  std::iota(ranks.begin(), ranks.end(), of_process * ranks_per_process(num_ranks));
  return ranks;
}

void require_even_ranks(const ProcessLayout& layout, int num_ranks, Launcher launcher) {
  if (num_ranks % layout.num_processes == 0) return;
  std::vector<std::string> fit;
  for (int count = 1; count <= num_ranks; ++count) {
    if (num_ranks % count == 0) fit.push_back(std::to_string(count));
  }
  throw Error(ErrorKind::kUsage,
              {.what = counted(num_ranks, "rank") + " cannot be spread evenly over the " +
                       counted(layout.num_processes, "process") + " that " + has_started(launcher),
               .where = "environment",
               .remedy = "start " + join(fit, ", ") +
                         " of them, or change the degrees of "
                         "[parallelism]"});
}

LaunchEnvironment read_launch_environment(const Environment& variable) {
  LaunchEnvironment environment;
  environment.launcher = launcher_of(variable);
  const Variables variables(variable, environment.launcher);
  environment.secret = variables.text_or_empty("SLUICE_JOB_SECRET");
  switch (environment.launcher) {
    case Launcher::kNone:
      break;
    case Launcher::kSluice:
      environment.layout = read_layout(variables, kTorchNames);
      environment.restart = variables.required_number(kLaunchRestartVariable, 0, kMaxProcesses);
      read_master(variables, environment, true);
      variables.required("SLUICE_JOB_SECRET");
      break;
    case Launcher::kTorchrun:
      environment.layout = read_layout(variables, kTorchNames);
      environment.job = "torchrun-" + variables.required("TORCHELASTIC_RUN_ID");
      environment.restart =
          variables.number("TORCHELASTIC_RESTART_COUNT", 0, kMaxProcesses).value_or(0);
      environment.error_file = variables.text_or_empty("TORCHELASTIC_ERROR_FILE");
      read_master(variables, environment, true);
      break;
    case Launcher::kSlurm:
      read_slurm(variables, environment);
      require_same(variables, environment);
      break;
    case Launcher::kOpenMpi:
      read_open_mpi(variables, environment);
      require_same(variables, environment);
      break;
    case Launcher::kMpich:
      read_mpich(variables, environment);
      require_same(variables, environment);
      break;
    case Launcher::kByHand:
      read_by_hand(variables, environment);
      if (environment.layout.num_processes == 1) environment.launcher = Launcher::kNone;
      break;
  }
  return environment;
}

LaunchEnvironment read_launch_environment() {
  return read_launch_environment([](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
}

}  // namespace sluice
