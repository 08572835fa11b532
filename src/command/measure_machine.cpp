// Times a real run's instructions on a small model (small_model.h). As many copies run at once as
// ranks will share the cores.
#include <algorithm>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "comm/loopback_transports.h"
#include "command/inputs.h"
#include "command/instruction_times.h"
#include "command/job.h"
#include "command/message_times.h"
#include "command/small_model.h"
#include "config/machine_memory.h"
#include "config/planned_device.h"
#include "engine/rank_threads.h"
#include "job/launch_environment.h"
#include "layer/unfilled.h"
#include "plan/data_parallel.h"
#include "plan/predict/layer_times.h"
#include "sluice/causal_lm.h"
#include "sluice/parts/transport.h"
#include "sluice/trainer.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// A measurement runs training steps (rounds). The first warms up. If the timings of an instruction
// differ too much after the planned rounds, up to kMostMoreRounds follow.
constexpr int kFewestRounds = 2, kMostMoreRounds = 4;

void run_rounds(const RunConfig& config, const SmallModel& small, Transport& transport,
                Clock::time_point deadline, InstructionTimes& times) {
  RunOptions options = run_options(config);
  options.weights = InitialWeights::kDrawn;
  options.training_observers = [&](int /*rank*/) { return std::vector<ExecutorObserver*>{&times}; };
  Pipeline pipeline(small.model, small.plan, transport, options);
  // An exported graph may have parameters that no code initializes.
  pipeline.load_weights([](Stage& stage) { zero_unfilled(stage.chunk()); });
  Trainer trainer(pipeline, config.optimizer);
  double longest = 0;
  int more = 0;
  Clock::time_point now = Clock::now();
  for (int round = 1;; ++round) {
    trainer.step(random_batch(config, small, round), /*learning_rate=*/0);
    const Clock::time_point after = Clock::now();
    longest = std::max(longest, seconds_between(now, after));
    now = after;
    const bool is_late =
        now + std::chrono::duration_cast<Clock::duration>(Seconds(longest)) > deadline;
    if (!is_late || round < kFewestRounds) continue;
    if (++more > kMostMoreRounds || !times.needs_more()) return;
  }
}

MessageTimes messages_here(const RunConfig& config, double bytes) {
  const auto endpoints = config.parallelism.transport == TransportKind::kGloo
                             ? make_loopback_transports(2, {})
                             : make_local_transports(2);
  MessageTimes measured;
  run_ranks(endpoints, 1, nullptr, [&](Transport& transport) {
    const MessageTimes own = message_times(transport, 1 - transport.rank(), bytes);
    if (transport.rank() == 0) measured = own;
  });
  return measured;
}

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

double mean(const std::vector<InstructionTimes>& times,
            const std::function<double(const InstructionTimes&)>& of) {
  double sum = 0;
  for (const InstructionTimes& each : times) sum += of(each);
  return sum / static_cast<double>(times.size());
}

LayerTime mean_times(const std::vector<InstructionTimes>& measured, int stage) {
  LayerTime sum;
  const auto count = static_cast<double>(measured.size());
  for (const InstructionTimes& each : measured) {
    const LayerTime time = each.of(stage);
    for (double LayerTime::*part : std::initializer_list<double LayerTime::*>{
             &LayerTime::forward, &LayerTime::backward_input, &LayerTime::backward_weight,
             &LayerTime::backward, &LayerTime::cast})
      sum.*part += time.*part / count;
  }
  settle(sum);
  return sum;
}

// The small model computes no input gradient of a frozen layer, but the full model may. Assumes the
// time of the forward, which has as many matrix products.
void set_unseen(LayerTime& time, const LayerInfo& layer, const MicrobatchShape& shape) {
  if (time.backward > 0) return;
  if (layer.cost.input_flops.at(shape) <= 0) return;
  time.backward_input = time.backward = time.forward;
}

LayerTimes times_of(const RunConfig& config, const ModelSpec& whole,
                    const std::vector<detail::LayerGroup>& groups, const SmallModel& small,
                    const std::vector<InstructionTimes>& measured) {
  LayerTimes times = without_times(
      whole, {config.training.microbatch_size, config.training.seq_len}, config.optimizer.kind);
  times.unit = "s";
  times.action = mean(measured, [](const InstructionTimes& each) { return each.action(); });
  double trained = 0;
  const auto trained_of = [](const LayerInfo& layer) {
    double count = 0;
    for (const ParameterSpec& parameter : layer.parameters) {
      if (parameter.trainable && parameter.tied_to.empty())
        count += static_cast<double>(parameter.numel());
    }
    return count;
  };
  for (const LayerInfo& layer : small.spec.layers) trained += trained_of(layer);
  const double update = mean(measured, [](const InstructionTimes& each) { return each.update(); });
  for (const detail::LayerGroup& group : groups) {
    const auto place = std::find(small.groups.begin(), small.groups.end(), group.measured_as);
    const int stage = static_cast<int>(place - small.groups.begin());
    const LayerTime measured_time = mean_times(measured, stage);
    // Layers that must share a stage are timed together. The last one gets the whole time.
    LayerTime& time = times.layers[static_cast<std::size_t>(group.layers.back())];
    time.forward = measured_time.forward;
    time.backward_input = measured_time.backward_input;
    time.backward_weight = measured_time.backward_weight;
    time.backward = measured_time.backward;
    time.cast = measured_time.cast;
    set_unseen(time, whole.layers[static_cast<std::size_t>(group.layers.back())],
               times.of.microbatch);
    for (const int layer : group.layers) {
      times.layers[static_cast<std::size_t>(layer)].optimizer_step =
          trained > 0 ? update * trained_of(whole.layers[static_cast<std::size_t>(layer)]) / trained
                      : 0;
    }
  }
  return times;
}

}  // namespace

MeasuredMachine measure_machine(const RunConfig& config, double seconds) {
  const ProcessLayout layout = read_launch_environment().layout;
  const PipelineOptions& pipeline = config.parallelism.pipeline;
  const int num_ranks = static_cast<int>(detail::ranks_of_run(pipeline));
  const int ranks_here = num_ranks * layout.processes_on_machine / layout.num_processes;
  if (planned_device(config.training.device, ranks_here).is_cuda) {
    throw Error(ErrorKind::kUsage,
                {.what = "layers are timed on the CPU, but the ranks of this run compute on GPUs",
                 .where = "training.device",
                 .remedy = "set parallelism.partition to \"even\" or \"cost\", parallelism.costs "
                           "to your own times, or training.device to \"cpu\""});
  }
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
  const RunConfig one = single_rank_config(config);
  const Plan whole = plan_of_config(one);
  const std::vector<detail::LayerGroup> groups = detail::layer_groups(whole.model);
  const SmallModel small = small_model(one, whole.model, groups);

  const int threads =
      resolve_threads_per_rank(static_cast<int>(config.training.threads_per_rank), ranks_here);
  const std::int64_t each_needs = small.plan.ranks.front().memory.total_bytes();
  require_memory(small.plan, machine_memory_bytes());
  int at_once = std::clamp(cores() / threads, 1, std::max(1, ranks_here));
  while (at_once > 1 && at_once * each_needs > machine_memory_bytes()) --at_once;

  std::vector<std::unique_ptr<Transport>> endpoints;
  for (int i = 0; i < at_once; ++i)
    endpoints.push_back(std::move(make_local_transports(1).front()));
  const bool casts = config.training.mixed_precision != MixedPrecision::kNone;
  std::vector<InstructionTimes> measured(endpoints.size(), InstructionTimes(casts));
  std::map<const Transport*, InstructionTimes*> times_of_endpoint;
  for (std::size_t i = 0; i < endpoints.size(); ++i)
    times_of_endpoint[endpoints[i].get()] = &measured[i];
  run_ranks(endpoints, threads, nullptr, [&](Transport& transport) {
    run_rounds(one, small, transport, deadline, *times_of_endpoint.at(&transport));
  });

  LayerTimes times = times_of(one, whole.model, groups, small, measured);
  times.of = timed_run_of(config, whole.model, threads);
  if (num_ranks > 1) {
    const MessageTimes messages = messages_here(config, largest_message(times));
    times.latency = messages.latency;
    times.bandwidth = messages.bandwidth;
  }
  const double parallel = std::max(1.0, static_cast<double>(cores()) / threads);
  if (layout.processes_on_machine == layout.num_processes && num_ranks > parallel)
    times.parallel_ranks = parallel;
  return {layer_times_json(times), machine_memory_bytes() / std::max(1, ranks_here), threads};
}

}  // namespace sluice
