// A training run of a small model: one layer of each kind, each a stage of its own, so that the
// times are those of the instructions that a run executes, whatever carries them out.
//
//   0F0 1F0 2F0 2B0 1B0 0B0               F and B
//   0F1 1F1 2F1 2I1 1I1 0I1 2W1 1W1 0W1   F, I and W
//   REDUCE_LOSS REDUCE_NORM OPTIMIZER_STEP   the update
//
// As many of it run at once as ranks will share the cores; of all rounds the typical time of every
// instruction counts (sampled_times.h), and of all that ran beside each other their mean.
#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "config/machine_memory.h"
#include "job/job_run_options.h"
#include "job/model_options.h"
#include "job/sampled_times.h"
#include "launch/launch_environment.h"
#include "plan/predict/layer_kinds.h"
#include "plan/predict/layer_times.h"
#include "run/rank_threads.h"
#include "sluice/causal_lm.h"
#include "sluice/job.h"
#include "sluice/parts/transport.h"
#include "sluice/trainer.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kMicrobatches = 2;  // of a round: for B, for I and W
// However long they take: the first warms up, and no time comes from one sample. More of them where
// samples contradict each other.
constexpr int kFewestRounds = 2, kMostMoreRounds = 4;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return Seconds(to - from).count();
}

// ---- the small model ----

// One rank, even stages, nothing that the layers' times do not depend on.
RunConfig of_one_rank(RunConfig config) {
  ParallelismOptions& parallelism = config.parallelism;
  parallelism.pipeline.num_ranks = 1;
  parallelism.pipeline.auto_schedule = false;
  parallelism.pipeline.schedule = ScheduleKind::k1F1B;
  parallelism.pipeline.partition = {};
  parallelism.pipeline.data_parallel = {};
  parallelism.schedule_csv.clear();
  parallelism.partition = Balance::kEven;
  parallelism.costs.clear();
  parallelism.device_memory.clear();
  config.training.local_batch_size = config.training.microbatch_size;
  config.training.global_batch_size = 0;
  config.checkpoint.interval = 0;
  return config;
}

struct SmallModel {
  std::vector<int> groups;  // of layer_groups(): those that are measured, a stage each
  ModelSpec spec;
  Model model;
  Plan plan;
};

Schedule measuring_schedule(int num_stages) {
  Schedule schedule;
  schedule.name = "measurement";
  schedule.num_microbatches = kMicrobatches;
  schedule.stage_map = StageMap(1, std::vector<int>(static_cast<std::size_t>(num_stages), 0));
  std::vector<Action>& row = schedule.rows.emplace_back();
  for (int m = 0; m < kMicrobatches; ++m) {
    const bool splits = m + 1 == kMicrobatches;
    for (int s = 0; s < num_stages; ++s) row.push_back(Action::forward(s, m));
    for (int s = num_stages - 1; s >= 0; --s)
      row.push_back(splits ? Action::backward_input(s, m) : Action::backward(s, m));
    for (int s = num_stages - 1; splits && s >= 0; --s)
      row.push_back(Action::backward_weight(s, m));
  }
  return schedule;
}

ActivationCheckpoint recomputed_of(const ActivationCheckpoint& which, const ModelSpec& spec) {
  if (which.kind != ActivationCheckpoint::kLayers) return which;
  std::vector<std::string> names;
  for (const LayerInfo& layer : spec.layers) {
    if (std::find(which.names.begin(), which.names.end(), layer.name) != which.names.end())
      names.push_back(layer.name);
  }
  return names.empty() ? ActivationCheckpoint() : ActivationCheckpoint(which.kind, names);
}

// Values that are neither zeros nor denormals, in less time than drawing them well.
void fill(at::Tensor& value) {
  if (!value.is_floating_point()) return;
  value.dim() < 2 ? value.fill_(1) : value.uniform_(-0.03, 0.03);
}

SmallModel small_model(const RunConfig& config, const ModelSpec& whole,
                       const std::vector<detail::LayerGroup>& groups) {
  SmallModel small;
  Model all = causal_lm(whole, layer_options(config, adapter_of_config(config, whole)));
  small.spec = whole;
  small.spec.layers.clear();
  small.model = all;
  small.model.layers.clear();
  PipelineOptions options;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].measured_as != static_cast<int>(g)) continue;
    small.groups.push_back(static_cast<int>(g));
    if (!small.spec.layers.empty())
      options.partition.cuts.push_back(small.spec.layers.back().module_names().back());
    for (const int layer : groups[g].layers) {
      small.spec.layers.push_back(whole.layers[static_cast<std::size_t>(layer)]);
      small.model.layers.push_back(all.layers.at(static_cast<std::size_t>(layer)));
    }
  }
  small.model.initialization.tensor = [](const std::string& /*name*/, at::Tensor& value) {
    fill(value);
  };
  options.own_schedule = measuring_schedule(static_cast<int>(small.groups.size()));
  options.partition.convention = Convention::kNeuronx;  // a stage may be one end of the model
  options.microbatch_size = config.training.microbatch_size;
  options.seq_len = config.training.seq_len;
  options.optimizer = config.optimizer.kind;
  options.activation_checkpoint = recomputed_of(config.training.activation_checkpoint, small.spec);
  options.step_end = StepEnd::kUpdate;
  small.plan = plan_pipeline(small.spec, options);
  return small;
}

StepBatch some_batch(const RunConfig& config, const ModelSpec& spec, std::int64_t step) {
  TokenRows rows;
  rows.num_rows = kMicrobatches * config.training.microbatch_size;
  rows.seq_len = config.training.seq_len;
  const std::int64_t vocabulary = std::max<std::int64_t>(1, spec.vocab_size);
  for (std::int64_t i = 0; i < rows.num_rows * rows.seq_len; ++i)
    rows.ids.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocabulary));
  rows.labels = rows.ids;
  return causal_lm_batch(std::move(rows), config.training.microbatch_size, step);
}

// ---- one that runs ----

// What the instructions of one rank's rounds took.
class InstructionTimes final : public ExecutorObserver {
 public:
  void begin_step(std::int64_t /*step*/) override {
    in_compute_ = 0;
    num_compute_ = 0;
  }
  void begin(int index, const Action& action) override {
    began_ = Clock::now();
    if (index == 0) row_began_ = began_;
    if (!is_compute(action.kind) && num_compute_ > 0 && !computed_all_) {
      computed_all_ = true;
      compute_ended_ = began_;
    }
  }
  void end(int /*index*/, const Action& action) override {
    const Clock::time_point now = Clock::now();
    if (!is_compute(action.kind)) return;
    const double seconds = seconds_between(began_, now);
    in_compute_ += seconds;
    ++num_compute_;
    samples_of(stages_[action.stage], action.kind).push_back(seconds);
  }
  void end_step() override {
    computed_all_ = false;
    updates_.push_back(seconds_between(compute_ended_, Clock::now()));
    const double between = seconds_between(row_began_, compute_ended_) - in_compute_;
    actions_.push_back(std::max(0.0, between / std::max(1, num_compute_)));
  }

  LayerTime of(int stage) const {
    const auto found = stages_.find(stage);
    return found == stages_.end() ? LayerTime() : typical_times(found->second);
  }
  double update() const { return typical_time(updates_); }
  double action() const { return typical_time(actions_); }
  bool needs_more() const {
    return std::any_of(stages_.begin(), stages_.end(),
                       [](const auto& stage) { return needs_more_samples(stage.second); });
  }

 private:
  static std::vector<double>& samples_of(SampledTimes& stage, ActionKind kind) {
    switch (kind) {
      case ActionKind::kForward:
        return stage.forward;
      case ActionKind::kBackwardInput:
        return stage.backward_input;
      case ActionKind::kBackwardWeight:
        return stage.backward_weight;
      default:
        return stage.backward;
    }
  }

  Clock::time_point began_, row_began_, compute_ended_;
  bool computed_all_ = false;
  double in_compute_ = 0;
  int num_compute_ = 0;
  std::vector<double> updates_, actions_;
  std::map<int, SampledTimes> stages_;
};

void run_rounds(const RunConfig& config, const SmallModel& small, Transport& transport,
                Clock::time_point deadline, InstructionTimes& times) {
  RunOptions options = run_options(config);
  options.weights = InitialWeights::kDrawn;
  options.training_observers = [&](int /*rank*/) { return std::vector<ExecutorObserver*>{&times}; };
  Pipeline pipeline(small.model, small.plan, transport, options);
  Trainer trainer(pipeline, config.optimizer);
  double longest = 0;
  int more = 0;  // rounds after the deadline
  Clock::time_point now = Clock::now();
  for (int round = 1;; ++round) {
    trainer.step(some_batch(config, small.spec, round), /*learning_rate=*/0);
    const Clock::time_point after = Clock::now();
    longest = std::max(longest, seconds_between(now, after));
    now = after;
    // Rounds after the first are a little shorter, and no two rounds must end together.
    const bool is_late =
        now + std::chrono::duration_cast<Clock::duration>(Seconds(longest)) > deadline;
    if (!is_late || round < kFewestRounds) continue;
    if (++more > kMostMoreRounds || !times.needs_more()) return;
  }
}

// ---- transfers ----

// Half of the way there and back of a message between two threads of this process.
double message_latency(double bytes) {
  constexpr int kMessages = 40;
  const auto endpoints = make_local_transports(2);
  double shortest = std::numeric_limits<double>::max();
  run_ranks(endpoints, 1, nullptr, [&](Transport& transport) {
    const int other = 1 - transport.rank();
    const at::Tensor payload =
        at::zeros({std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / sizeof(float)))});
    for (int i = 0; i < kMessages; ++i) {
      const MessageTag tag{0, i, 1};
      const Clock::time_point began = Clock::now();
      const auto receive = [&] {
        transport.wait(transport.post_receive(other, ChannelKind::kActivation, tag, std::nullopt));
      };
      if (transport.rank() == 1) receive();
      transport.send(other, ChannelKind::kActivation, {tag, {payload}});
      if (transport.rank() == 1) continue;
      receive();
      shortest = std::min(shortest, seconds_between(began, Clock::now()) / 2);
    }
  });
  return shortest;
}

// ---- all together ----

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
    for (double LayerTime::*part : {&LayerTime::forward, &LayerTime::backward_input,
                                    &LayerTime::backward_weight, &LayerTime::backward})
      sum.*part += time.*part / count;
  }
  settle(sum);
  return sum;
}

// A frozen layer below all that is trained in the small model may be above something in the whole
// one: the gradient of its input has as many products as its forward.
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
    // Of layers that are always together, the last has it all.
    LayerTime& time = times.layers[static_cast<std::size_t>(group.layers.back())];
    time.forward = measured_time.forward;
    time.backward_input = measured_time.backward_input;
    time.backward_weight = measured_time.backward_weight;
    time.backward = measured_time.backward;
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
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
  const RunConfig one = of_one_rank(config);
  const Plan whole = plan_of_config(one);
  const std::vector<detail::LayerGroup> groups = detail::layer_groups(whole.model);
  const SmallModel small = small_model(one, whole.model, groups);

  const PipelineOptions& pipeline = config.parallelism.pipeline;
  const int num_ranks = pipeline.num_ranks.value_or(1) * pipeline.data_parallel.degree;
  const ProcessLayout layout = read_launch_environment().layout;
  const int ranks_here = num_ranks * layout.processes_on_machine / layout.num_processes;
  const int threads =
      resolve_threads_per_rank(static_cast<int>(config.training.threads_per_rank), ranks_here);
  const std::int64_t each_needs = small.plan.ranks.front().memory.total_bytes();
  require_memory(small.plan, machine_memory_bytes());
  int at_once = std::clamp(cores() / threads, 1, std::max(1, ranks_here));
  while (at_once > 1 && at_once * each_needs > machine_memory_bytes()) --at_once;

  std::vector<std::unique_ptr<Transport>> endpoints;
  for (int i = 0; i < at_once; ++i)
    endpoints.push_back(std::move(make_local_transports(1).front()));
  std::vector<InstructionTimes> measured(endpoints.size());
  std::map<const Transport*, InstructionTimes*> times_of_endpoint;
  for (std::size_t i = 0; i < endpoints.size(); ++i)
    times_of_endpoint[endpoints[i].get()] = &measured[i];
  run_ranks(endpoints, threads, nullptr, [&](Transport& transport) {
    run_rounds(one, small, transport, deadline, *times_of_endpoint.at(&transport));
  });

  LayerTimes times = times_of(one, whole.model, groups, small, measured);
  times.of = timed_run_of(config, whole.model, threads);
  double largest = 0;
  for (const LayerTime& layer : times.layers) {
    if (layer.role != LayerRole::kHead) largest = std::max(largest, layer.output_bytes);
  }
  times.latency = num_ranks > 1 ? message_latency(largest) : 0;
  const double parallel = std::max(1.0, static_cast<double>(cores()) / threads);
  if (layout.processes_on_machine == layout.num_processes && num_ranks > parallel)
    times.parallel_ranks = parallel;
  return {layer_times_json(times), machine_memory_bytes() / std::max(1, ranks_here), threads};
}

}  // namespace sluice
