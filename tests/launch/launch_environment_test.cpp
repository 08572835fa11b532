#include "job/launch_environment.h"

#include <gtest/gtest.h>

#include <map>

#include "job/slurm_lists.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

using Set = std::map<std::string, std::string>;

LaunchEnvironment read(const Set& variables) {
  return read_launch_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

Set with(Set variables, const Set& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

void expect_layout(const LaunchEnvironment& environment, int processes, int process, int here,
                   int local) {
  EXPECT_EQ(environment.layout.num_processes, processes);
  EXPECT_EQ(environment.layout.process, process);
  EXPECT_EQ(environment.layout.processes_on_machine, here);
  EXPECT_EQ(environment.layout.local_process, local);
}

void expect_refused(const Set& variables, const std::string& begin) {
  const Error error = test::error_of([&] { read(variables); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_TRUE(std::string(error.what()).starts_with(begin)) << error.what();
  EXPECT_FALSE(error.remedy().empty());
}

const Set kTorch = {{"RANK", "5"},         {"LOCAL_RANK", "1"},
                    {"WORLD_SIZE", "8"},   {"LOCAL_WORLD_SIZE", "4"},
                    {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}};
const Set kTorchrun = with(kTorch, {{"TORCHELASTIC_RUN_ID", "none"},
                                    {"TORCHELASTIC_RESTART_COUNT", "2"},
                                    {"TORCHELASTIC_ERROR_FILE", "/tmp/error.json"}});
const Set kSrun = {{"SLURM_JOB_ID", "1234"},
                   {"SLURM_STEP_ID", "7"},
                   {"SLURM_PROCID", "3"},
                   {"SLURM_LOCALID", "1"},
                   {"SLURM_NODEID", "1"},
                   {"SLURM_STEP_NUM_TASKS", "5"},
                   {"SLURM_STEP_NUM_NODES", "3"},
                   {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                   {"SLURM_STEP_NODELIST", "gpu-[07-09]"}};
const Set kMpirun = {{"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_RANK", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                     {"PMIX_NAMESPACE", "2871459841"}};
const Set kMpiexec = {
    {"PMI_SIZE", "4"}, {"PMI_RANK", "2"}, {"MPI_LOCALNRANKS", "4"}, {"MPI_LOCALRANKID", "2"}};

TEST(LaunchEnvironmentTest, WithoutALauncherThereIsOneProcess) {
  for (const Set& variables :
       {Set{}, Set{{"WORLD_SIZE", "1"}}, Set{{"WORLD_SIZE", ""}, {"RANK", ""}},
        Set{{"MASTER_ADDR", "n0"}, {"MASTER_PORT", "1"}},
        // In a Slurm batch script, before srun.
        Set{{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}},
        Set{{"RANK", "0"}, {"WORLD_SIZE", "1"}}}) {
    const LaunchEnvironment environment = read(variables);
    EXPECT_EQ(environment.launcher, Launcher::kNone);
    expect_layout(environment, 1, 0, 1, 0);
    EXPECT_TRUE(environment.one_machine());
  }
}

TEST(LaunchEnvironmentTest, ReadsSluiceLaunch) {
  const LaunchEnvironment environment = read(with(kTorch, {{kLaunchRestartVariable, "3"},
                                                           {"SLUICE_JOB_SECRET", "hidden"},
                                                           {"SLURM_PROCID", "0"},
                                                           {"SLURM_STEP_NUM_TASKS", "2"}}));
  EXPECT_EQ(environment.launcher, Launcher::kSluice);
  expect_layout(environment, 8, 5, 4, 1);
  EXPECT_EQ(environment.master_address, "n0");
  EXPECT_EQ(environment.master_port, 29500);
  EXPECT_EQ(environment.restart, 3);
  EXPECT_EQ(environment.secret, "hidden");
  EXPECT_FALSE(environment.one_machine());
}

TEST(LaunchEnvironmentTest, ReadsTorchrun) {
  const LaunchEnvironment environment = read(kTorchrun);
  EXPECT_EQ(environment.launcher, Launcher::kTorchrun);
  expect_layout(environment, 8, 5, 4, 1);
  EXPECT_EQ(environment.restart, 2);
  EXPECT_EQ(environment.error_file, "/tmp/error.json");
  EXPECT_EQ(environment.master_address, "n0");
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    expect_refused(with(kTorchrun, {{name, ""}}),
                   std::string(name) + " is not set, although torchrun");
}

TEST(LaunchEnvironmentTest, ReadsSrun) {
  const LaunchEnvironment environment = read(kSrun);
  EXPECT_EQ(environment.launcher, Launcher::kSlurm);
  expect_layout(environment, 5, 3, 2, 1);
  EXPECT_EQ(environment.job, "slurm-1234-7");
  EXPECT_EQ(environment.master_address, "gpu-07");
  EXPECT_GE(environment.master_port, 20000);
  EXPECT_LT(environment.master_port, 30000);
  EXPECT_NE(read(with(kSrun, {{"SLURM_STEP_ID", "8"}})).master_port, environment.master_port);
  const LaunchEnvironment chosen = read(
      with(kSrun, {{"MASTER_ADDR", "ib0"}, {"MASTER_PORT", "1234"}, {"SLURM_RESTART_COUNT", "1"}}));
  EXPECT_EQ(chosen.master_address, "ib0");
  EXPECT_EQ(chosen.master_port, 1234);
  EXPECT_EQ(chosen.restart, 1);
  // With Slurm's own pmi2 the launcher is still srun.
  EXPECT_EQ(read(with(kSrun, {{"PMI_SIZE", "5"}, {"PMI_RANK", "3"}})).launcher, Launcher::kSlurm);
}

TEST(LaunchEnvironmentTest, RefusesWhatSrunCannotMean) {
  expect_refused(with(kSrun, {{"SLURM_PROCID", "5"}}),
                 "SLURM_PROCID = '5' is not a whole number from 0 to 4");
  expect_refused(with(kSrun, {{"SLURM_LOCALID", "2"}}), "SLURM_LOCALID = '2'");
  expect_refused(with(kSrun, {{"SLURM_NODEID", "3"}}),
                 "SLURM_STEP_TASKS_PER_NODE = '2(x2),1' has no entry for node 3");
  expect_refused(with(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "many"}}),
                 "SLURM_STEP_TASKS_PER_NODE = 'many'");
  expect_refused(with(kSrun, {{"SLURM_JOB_ID", ""}}), "SLURM_JOB_ID is not set, although srun");
  expect_refused(with(kSrun, {{"RANK", "2"}, {"WORLD_SIZE", "5"}}),
                 "RANK = 2 contradicts srun, which sets 3");
  EXPECT_NO_THROW(read(with(kSrun, {{"RANK", "3"}, {"WORLD_SIZE", "5"}})));
}

TEST(LaunchEnvironmentTest, ReadsMpirun) {
  const LaunchEnvironment environment = read(kMpirun);
  EXPECT_EQ(environment.launcher, Launcher::kOpenMpi);
  expect_layout(environment, 4, 2, 4, 2);
  EXPECT_EQ(environment.job, "openmpi-2871459841");
  EXPECT_EQ(environment.master_port, 0);
  // In a Slurm job, mpirun starts its daemons with srun.
  EXPECT_EQ(read(with(kSrun, kMpirun)).launcher, Launcher::kOpenMpi);
  Set older = kMpirun;
  older.erase("PMIX_NAMESPACE");
  older["OMPI_MCA_ess_base_jobid"] = "77";
  EXPECT_EQ(read(older).job, "openmpi-77");
}

TEST(LaunchEnvironmentTest, SeveralMachinesUnderMpirunNeedAMeetingPlace) {
  const Set two =
      with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  expect_refused(two, "MASTER_ADDR is not set, although mpirun");
  expect_refused(with(two, {{"MASTER_ADDR", "n0"}}), "MASTER_PORT is not set, although mpirun");
  const LaunchEnvironment environment =
      read(with(two, {{"MASTER_ADDR", "n0"}, {"MASTER_PORT", "2000"}}));
  EXPECT_FALSE(environment.one_machine());
  EXPECT_EQ(environment.master_address, "n0");
  expect_refused(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "5"}}),
                 "OMPI_COMM_WORLD_LOCAL_SIZE = '5' is not a whole number from 1 to 4");
}

TEST(LaunchEnvironmentTest, ReadsMpiexecOfMpich) {
  const LaunchEnvironment environment = read(kMpiexec);
  EXPECT_EQ(environment.launcher, Launcher::kMpich);
  expect_layout(environment, 4, 2, 4, 2);
  // In a Slurm job, mpiexec starts its proxies with srun.
  EXPECT_EQ(read(with(with(kSrun, {{"SLURM_PROCID", "0"}}), kMpiexec)).launcher, Launcher::kMpich);
  expect_refused(with(kMpiexec, {{"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "0"}}),
                 "MASTER_ADDR is not set, although mpiexec");
}

TEST(LaunchEnvironmentTest, ReadsWhatIsSetByHand) {
  const Set by_hand = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  const LaunchEnvironment here = read(by_hand);
  EXPECT_EQ(here.launcher, Launcher::kByHand);
  expect_layout(here, 2, 1, 2, 1);
  expect_layout(read(with(by_hand, {{"MASTER_ADDR", "n0"}})), 2, 1, 1, 0);
  const LaunchEnvironment told =
      read(with(by_hand, {{"MASTER_ADDR", "n0"}, {"LOCAL_WORLD_SIZE", "2"}}));
  expect_layout(told, 2, 1, 2, 1);
  EXPECT_TRUE(told.one_machine());
  expect_layout(read(with(by_hand, {{"MASTER_ADDR", "n0"},
                                    {"WORLD_SIZE", "4"},
                                    {"RANK", "3"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"LOCAL_RANK", "1"}})),
                4, 3, 2, 1);
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    expect_refused(with(by_hand, {{name, ""}}),
                   std::string(name) +
                       " is not set, although this is one of several processes that "
                       "were started by hand; ");
  expect_refused(with(by_hand, {{"RANK", "2"}}), "RANK = '2' is not a whole number from 0 to 1");
  for (const char* wrong : {"two", "0", "-1", " 2", "2x", "99999999999"})
    expect_refused(with(by_hand, {{"WORLD_SIZE", wrong}}),
                   std::string("WORLD_SIZE = '") + wrong + "'");
  expect_refused(with(by_hand, {{"MASTER_PORT", "65536"}}), "MASTER_PORT = '65536'");
  expect_refused(with(by_hand, {{"LOCAL_WORLD_SIZE", "1"}}),
                 "LOCAL_WORLD_SIZE = 1 and WORLD_SIZE = 2 mean several machines");
  expect_refused({{"RANK", "3"}, {"WORLD_SIZE", "1"}}, "RANK = '3'");
}

TEST(LaunchEnvironmentTest, SpreadsRanksEvenly) {
  ProcessLayout layout{.num_processes = 2, .process = 1};
  EXPECT_EQ(layout.ranks_per_process(8), 4);
  EXPECT_EQ(layout.process_of(3, 8), 0);
  EXPECT_EQ(layout.process_of(4, 8), 1);
  EXPECT_EQ(layout.ranks_of(1, 8), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_NO_THROW(require_even_ranks(layout, 8, Launcher::kTorchrun));
  layout.num_processes = 3;
  const Error error = test::error_of([&] { require_even_ranks(layout, 8, Launcher::kTorchrun); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_STREQ(error.what(),
               "8 ranks cannot be spread evenly over the 3 processes that torchrun has started; "
               "environment; start 1, 2, 4, 8 of them, or change the degrees of [parallelism]");
}

TEST(SlurmListsTest, FindsTheFirstHost) {
  EXPECT_EQ(first_slurm_host("login1"), "login1");
  EXPECT_EQ(first_slurm_host("a,b"), "a");
  EXPECT_EQ(first_slurm_host("gpu-[003-017,20],login1"), "gpu-003");
  EXPECT_EQ(first_slurm_host("r[1-2]n[05,07]-ib"), "r1n05-ib");
  EXPECT_EQ(first_slurm_host(""), "");
  EXPECT_EQ(first_slurm_host("gpu-[1"), "");
}

TEST(SlurmListsTest, UnfoldsCounts) {
  EXPECT_EQ(slurm_counts("4"), (std::vector<int>{4}));
  EXPECT_EQ(slurm_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  for (const char* wrong :
       {"", "x", "2(x", "2(x)", "2(x3", "0", "-1", "2(x-1)", "2(x99999999)", "1,"})
    EXPECT_FALSE(slurm_counts(wrong)) << wrong;
}

}  // namespace
}  // namespace sluice
