#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <vector>

#include "comm/process_job.h"
#include "command/job.h"
#include "command/processes.h"
#include "config/machine_memory.h"
#include "engine/rank_threads.h"
#include "job/socket.h"
#include "plan/predict/layer_times.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

constexpr double kSeconds = 0.05;

RunConfig config(Overrides overrides = {}, const std::string& model = "llama_untied") {
  Overrides all = {{"model.config", SLUICE_TEST_DATA "/reference/models/" + model + "/config.json"},
                   {"parallelism.pipeline_parallel_degree", "2"},
                   {"parallelism.partition", "measured"},
                   {"training.local_batch_size", "4"},
                   {"training.seq_len", "32"}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_run_config("", all, {});
}

LayerTimes times_of(const MeasuredMachine& machine) {
  return parse_layer_times(machine.times, "the measurement");
}

double total(const LayerTime& layer) { return layer.forward + layer.backward; }

// False for the norm, which in every split is on one stage with the last block.
bool counts(const LayerTime& layer) { return layer.role != LayerRole::kNorm; }

TEST(MeasureMachineTest, EveryLayerHasTimesThatCanBe) {
  for (const std::string fused : {"auto", "off"}) {
    for (const std::string recomputed : {"none", "full"}) {
      const LayerTimes times = times_of(measure_machine(
          config({{"training.fused", fused}, {"training.activation_checkpoint", recomputed}}),
          kSeconds));
      ASSERT_EQ(times.layers.size(), 7u);
      for (const LayerTime& layer : times.layers) {
        SCOPED_TRACE(fused + ", " + recomputed + ", " + layer.name);
        if (!counts(layer)) continue;
        EXPECT_GT(layer.forward, 0);
        EXPECT_GT(layer.backward, 0);
        EXPECT_LE(layer.backward_input, layer.backward);
        EXPECT_LE(layer.backward_weight, layer.backward);
        EXPECT_LE(layer.backward, layer.backward_input + layer.backward_weight);
        EXPECT_GT(layer.optimizer_step, 0);
        EXPECT_LT(total(layer), 1);
      }
      EXPECT_GT(times.latency, 0);
      EXPECT_LT(times.action, 1);
    }
  }
}

TEST(MeasureMachineTest, LayersThatAreAlikeShareOneMeasurement) {
  const LayerTimes times = times_of(measure_machine(config(), kSeconds));
  const LayerTime& first = times.layers[1];
  for (std::size_t block = 2; block <= 4; ++block) {
    EXPECT_EQ(times.layers[block].forward, first.forward);
    EXPECT_EQ(times.layers[block].backward, first.backward);
    EXPECT_EQ(times.layers[block].optimizer_step, first.optimizer_step);
  }
}

TEST(MeasureMachineTest, FrozenLayersHaveNoWeightGradient) {
  const LayerTimes times = times_of(
      measure_machine(config({{"training.trainable", "[\"model.layers.0.*\"]"}}), kSeconds));
  EXPECT_EQ(times.layers[0].backward, 0);  // below all trained layers
  EXPECT_GT(times.layers[1].backward_weight, 0);
  for (std::size_t frozen = 2; frozen <= 4; ++frozen) {
    EXPECT_GT(times.layers[frozen].backward_input, 0);
    EXPECT_EQ(times.layers[frozen].backward_weight, 0);
    EXPECT_EQ(times.layers[frozen].backward, times.layers[frozen].backward_input);
    EXPECT_EQ(times.layers[frozen].optimizer_step, 0);
  }
}

TEST(MeasureMachineTest, TimesAreOfTheRunThatAskedForThem) {
  const RunConfig run = config({{"training.threads_per_rank", "0"}});
  const MeasuredMachine machine = measure_machine(run, kSeconds);
  EXPECT_EQ(machine.threads_per_rank, resolve_threads_per_rank(0, 2));
  EXPECT_EQ(times_of(machine).of.threads_per_rank, machine.threads_per_rank);
  EXPECT_EQ(machine.memory_per_rank, machine_memory_bytes() / 2);
  const Plan plan = plan_of_config(run, &machine);
  EXPECT_EQ(plan.time_unit, "s");
  EXPECT_EQ(require_times_of(times_of(machine), plan.model, timed_run_of(run, plan.model)), "");
}

TEST(MeasureMachineTest, APlanTakesWhatItIsToldWhateverCoresThisProcessHas) {
  const RunConfig run = config({{"training.threads_per_rank", "0"}});
  MeasuredMachine machine = measure_machine(run, kSeconds);
  LayerTimes times = times_of(machine);
  machine.threads_per_rank = times.of.threads_per_rank = 77;
  machine.times = layer_times_json(times);
  machine.memory_per_rank = std::int64_t{3} << 30;
  const Plan plan = plan_of_config(run, &machine);
  EXPECT_EQ(plan.time_unit, "s");
  EXPECT_EQ(plan.options.memory_per_rank, std::int64_t{3} << 30);
}

int free_port() { return local_port(listen_at("127.0.0.1", 0)); }

std::vector<MeasuredMachine> told(const RunConfig& run, int num_processes, int on_machine,
                                  int num_ranks) {
  LaunchEnvironment environment;
  environment.launcher = Launcher::kByHand;
  environment.master_address = "127.0.0.1";
  environment.master_port = free_port();
  environment.secret = "0123456789abcdef0123456789abcdef";  // several machines need a secret
  std::vector<std::future<MeasuredMachine>> processes;
  for (int process = 0; process < num_processes; ++process) {
    environment.layout = {.num_processes = num_processes,
                          .process = process,
                          .processes_on_machine = on_machine,
                          .local_process = process % on_machine};
    processes.push_back(std::async(std::launch::async, [run, environment, num_ranks] {
      ProcessJob job(environment,
                     {.num_ranks = num_ranks, .init_timeout = std::chrono::seconds(30)});
      const MeasuredMachine machine = measure_and_broadcast(run, job);
      job.finish();
      return machine;
    }));
  }
  std::vector<MeasuredMachine> machines;
  for (auto& process : processes) machines.push_back(process.get());
  return machines;
}

TEST(MeasuredOnceTest, AllProcessesGetTheNumbersOfOne) {
  const std::vector<MeasuredMachine> machines = told(config(), 2, 2, 2);
  // Two measurements would differ, so the processes share one.
  EXPECT_FALSE(machines[0].times.empty());
  EXPECT_EQ(machines[0].times, machines[1].times);
  EXPECT_EQ(machines[0].memory_per_rank, machines[1].memory_per_rank);
  EXPECT_EQ(machines[0].threads_per_rank, machines[1].threads_per_rank);
}

TEST(MeasuredOnceTest, MemoryIsSharedByTheRanksOnItsMachine) {
  const RunConfig run = config({{"parallelism.pipeline_parallel_degree", "4"},
                                {"parallelism.partition", "cost"},
                                {"training.threads_per_rank", "0"}});
  EXPECT_TRUE(depends_on_machine(run));
  for (const int on_machine : {1, 2}) {
    const std::vector<MeasuredMachine> machines = told(run, 2, on_machine, 4);
    for (const MeasuredMachine& machine : machines) {
      EXPECT_EQ(machine.times, "");
      EXPECT_EQ(machine.memory_per_rank, machine_memory_bytes() / (2 * on_machine));
      EXPECT_EQ(machine.threads_per_rank, resolve_threads_per_rank(0, 2 * on_machine));
    }
  }
}

TEST(MeasuredOnceTest, NothingIsAskedOfTheMachineWhereTheConfigurationSaysAll) {
  EXPECT_FALSE(depends_on_machine(config({{"parallelism.partition", "even"}})));
  EXPECT_FALSE(depends_on_machine(
      config({{"parallelism.partition", "cost"}, {"parallelism.device_memory", "\"1GB\""}})));
  EXPECT_TRUE(depends_on_machine(config({{"parallelism.device_memory", "\"1GB\""}})));
  EXPECT_TRUE(depends_on_machine(config(
      {{"parallelism.pipeline_parallel_schedule", "auto"}, {"parallelism.partition", "even"}})));
}

}  // namespace
}  // namespace sluice
