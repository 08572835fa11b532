// Trains with Trainer and hand-made plans, on rank threads of this process, over any transport.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/directory_weights.h"
#include "engine/executor.h"
#include "engine/rank_threads.h"
#include "engine/replicas.h"
#include "layer/auxiliary_values.h"
#include "optim/optimizer.h"
#include "plan/data_parallel.h"
#include "plan/partition/stage_backwards.h"
#include "plan/passes/passes.h"
#include "sluice/model.h"
#include "sluice/parts/observers.h"
#include "sluice/parts/saver.h"
#include "sluice/program.h"
#include "sluice/schedule.h"
#include "sluice/trainer.h"
#include "sluice/verify.h"
#include "support/even_partition.h"
#include "train/pipeline_control.h"

namespace sluice::test {

struct TrainingResult {
  std::vector<StepResult> reports;  // rank 0's, one per step
  std::vector<std::vector<StepResult>> of_rank;
  std::vector<RankStats> stats;               // of the last step
  std::map<std::string, at::Tensor> weights;  // by the name of their first use
  std::vector<double> losses() const {
    std::vector<double> values;
    for (const StepResult& report : reports) values.push_back(report.loss);
    return values;
  }
};

inline bool same_bits(const TrainingResult& a, const TrainingResult& b) {
  if (a.reports.size() != b.reports.size() || a.weights.size() != b.weights.size()) return false;
  for (std::size_t i = 0; i < a.reports.size(); ++i) {
    if (a.reports[i].loss != b.reports[i].loss ||
        a.reports[i].grad_norm != b.reports[i].grad_norm ||
        a.reports[i].parameter_norms != b.reports[i].parameter_norms) {
      return false;
    }
  }
  for (const auto& [name, tensor] : a.weights) {
    const auto other = b.weights.find(name);
    if (other == b.weights.end() || tensor.sizes() != other->second.sizes()) return false;
    if (std::memcmp(tensor.const_data_ptr(), other->second.const_data_ptr(), tensor.nbytes()) != 0)
      return false;
  }
  return true;
}

// A verified program with transfers, tied sums, loss, norm and update.
inline Program training_program(const std::string& schedule, int num_ranks, int num_microbatches,
                                std::vector<TieGroup> tie_groups = {}) {
  ScheduleShape shape;
  shape.num_ranks = num_ranks;
  shape.num_microbatches = num_microbatches;
  LowerOptions options;
  options.tie_groups = std::move(tie_groups);
  options.loss = true;
  options.optimizer_step = true;
  options.partial_norms = options.update_by_stage = true;
  options.norm = true;
  Program program = lower(make_schedule(schedule, shape), options);
  require_verified(verify(program), schedule);
  return program;
}

// `num_microbatches` counts those of one replica.
inline Program replicated_program(const std::string& schedule, int num_ranks, int num_microbatches,
                                  const DataParallel& data_parallel,
                                  std::vector<TieGroup> tie_groups = {},
                                  const std::string& rank_order = "pp,dp",
                                  int max_active_stages = 3) {
  LowerOptions options;
  options.max_active_stages = max_active_stages;
  options.tie_groups = std::move(tie_groups);
  options.loss = true;
  options.optimizer_step = true;
  options.partial_norms = options.update_by_stage = true;
  options.norm = true;
  detail::set_lowering(data_parallel, options);
  Program program =
      lower(make_schedule(schedule, {.num_ranks = num_ranks, .num_microbatches = num_microbatches}),
            options);
  program.mesh = detail::mesh_of(num_ranks, data_parallel, rank_order);
  require_verified(verify(program), schedule);
  return program;
}

inline StepBatch batch_of_rank(const StepBatch& all, const Mesh& mesh, int rank) {
  const auto replicas = static_cast<std::size_t>(num_replicas(mesh));
  if (replicas == 1) return all;
  const std::size_t each = all.microbatches.size() / replicas;
  const std::size_t first = each * static_cast<std::size_t>(replica_of(mesh, rank));
  StepBatch own;
  own.step = all.step;
  own.scale = all.scale;
  own.first_microbatch = static_cast<std::int64_t>(first);
  own.total_count = std::accumulate(all.counts.begin(), all.counts.end(), std::int64_t{0});
  for (std::size_t m = first; m < first + each; ++m) {
    own.microbatches.push_back(all.microbatches.at(m));
    own.counts.push_back(all.counts[m]);
  }
  return own;
}

struct RankOptions {
  OptimizerOptions optimizer;
  std::uint64_t seed = 0;
  GradientScale scale;
  std::function<StepRequest()> requested;
  MemoryLedger* ledger = nullptr;
  std::vector<ExecutorObserver*> observers;  // for training steps
  std::optional<at::ScalarType> autocast;
  DataParallel data_parallel;
  InitialWeights weights = InitialWeights::kDrawn;
};

inline RunOptions run_options_of(const RankOptions& options) {
  RunOptions result;
  result.seed = options.seed;
  result.scale = options.scale;
  result.requested = options.requested;
  result.ledger = options.ledger;
  result.autocast = options.autocast;
  result.weights = options.weights;
  result.training_observers = [own = options.observers](int /*rank*/) { return own; };
  return result;
}

// Also true if the module cannot be made.
inline bool trains(const LayerSpec& layer) {
  try {
    const auto module = layer.make ? layer.make() : nullptr;
    if (!module) return false;
    const auto parameters = module->parameters();
    return std::any_of(parameters.begin(), parameters.end(),
                       [](const at::Tensor& parameter) { return parameter.requires_grad(); });
  } catch (const std::exception&) {
    return true;
  }
}

// Leaves out the work that frozen layers do not need.
inline Plan plan_of(const Model& model, Partition partition, Program program,
                    const DataParallel& data_parallel = {}) {
  std::vector<bool> layer_trains;
  for (const LayerSpec& layer : model.layers) layer_trains.push_back(trains(layer));
  std::vector<std::string> roots = model.outputs;
  for (const LayerSpec& layer : model.layers) {
    for (const std::string& name : layer.writes) {
      if (is_auxiliary(model, name)) roots.push_back(name);
    }
  }
  Plan plan;
  plan.model = describe(model.layers);
  const auto backwards = stage_backwards(plan.model, partition, layer_trains, roots);
  bool all_full = true;
  for (StageContent& stage : partition.stages) {
    stage.backward = backwards.at(static_cast<std::size_t>(stage.stage));
    all_full = all_full && stage.backward == StageBackward::kFull;
  }
  plan.partition = std::move(partition);
  plan.schedule.num_microbatches = program.num_microbatches;
  plan.options.data_parallel = data_parallel;
  plan.options.step_end = StepEnd::kUpdate;
  plan.program = all_full || program.forward_only ? std::move(program)
                                                  : drop_frozen(std::move(program), backwards);
  return plan;
}

class RankTrainer {
 public:
  RankTrainer(const Model& model, const Plan& plan, Transport& transport,
              const RankOptions& options)
      : pipeline_(model, plan, transport, run_options_of(options)),
        trainer_(pipeline_, options.optimizer) {}

  Pipeline& pipeline() { return pipeline_; }
  StepResult step(const StepBatch& batch, double lr) { return trainer_.step(batch, lr); }
  std::vector<MicrobatchLoss> evaluate(const StepBatch& batch) {
    return PipelineControl(pipeline_).evaluate(batch);
  }
  std::vector<ParameterInfo> parameters() const { return pipeline_.named_parameters(); }
  const Optimizer& optimizer() const { return trainer_.optimizer(); }
  std::optional<std::int64_t> weights_step() const { return trainer_.weights_step(); }

 private:
  Pipeline pipeline_;
  Trainer trainer_;
};

struct TrainingRun {
  std::function<Model()> model;  // called on every rank's thread
  Partition partition;
  Program program;
  std::vector<StepBatch> steps;  // of all replicas
  RankOptions options;
  double lr = 0.01;
  std::function<std::vector<std::unique_ptr<Transport>>(int, const TransportOptions&)>
      make_endpoints = make_local_transports;
  // Source of the initial weights; nullptr draws them at random.
  const HfDirectory* weights = nullptr;
  const ModelSpec* spec = nullptr;
  MemoryLedger* ledger = nullptr;
  std::function<void(int rank, RankOptions&)> per_rank;
  std::function<void(RankTrainer&, Transport&)> before_steps, after_steps;
};

inline TrainingResult run_training(const TrainingRun& run) {
  TrainingResult result;
  const Mesh& mesh = run.program.mesh;
  result.of_rank.resize(static_cast<std::size_t>(mesh.num_ranks()));
  std::mutex mutex;
  const Plan plan = plan_of(run.model(), run.partition, run.program, run.options.data_parallel);
  const auto transports = run.make_endpoints(mesh.num_ranks(), {});
  run_ranks(transports, 1, run.ledger, [&](Transport& transport) {
    const Model model = run.model();
    RankOptions options = run.options;
    options.ledger = run.ledger;
    if (run.weights) options.weights = InitialWeights::kNone;
    if (run.per_rank) run.per_rank(transport.rank(), options);
    RankTrainer trainer(model, plan, transport, options);
    if (run.weights) {
      trainer.pipeline().load_weights(
          weights_of(*run.weights, *run.spec, /*adapter=*/nullptr, options.seed));
    }
    if (run.before_steps) run.before_steps(trainer, transport);
    std::vector<StepResult>& reports = result.of_rank[transport.rank()];
    for (const StepBatch& step : run.steps)
      reports.push_back(trainer.step(batch_of_rank(step, mesh, transport.rank()), run.lr));
    const std::vector<RankStats> stats =
        PipelineControl(trainer.pipeline()).gather_stats(trainer.pipeline().times());
    if (run.after_steps) run.after_steps(trainer, transport);
    if (run.options.data_parallel.zero3) {
      const RankState whole = PipelineControl(trainer.pipeline()).state(transport.world());
      const std::lock_guard lock(mutex);
      result.stats = stats;
      for (const auto& [name, value] : whole.parameters) result.weights[name] = value.clone();
      return;
    }
    const std::lock_guard lock(mutex);
    result.stats = stats;
    for (const ParameterInfo& info : trainer.parameters()) {
      if (!info.tied_to.empty()) continue;
      const at::Tensor value =
          info.tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
      const auto [known, added] = result.weights.emplace(info.name, value);
      if (!added && !at::equal(known->second, value))
        throw std::logic_error("replicas have other values of '" + info.name + "'");
    }
  });
  result.reports = result.of_rank.front();
  return result;
}

}  // namespace sluice::test
