// Trains a model with Trainer on ranks that are threads of this process, over any transport, and
// keeps everything that can be compared.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/data_parallel.h"
#include "run/replicas.h"
#include "sluice/parts/memory_ledger.h"
#include "sluice/parts/rank_threads.h"
#include "sluice/program.h"
#include "sluice/schedule.h"
#include "sluice/trainer.h"
#include "sluice/verify.h"
#include "support/even_partition.h"

namespace sluice::test {

struct TrainingResult {
  std::vector<StepReport> reports;  // of rank 0, one a step
  std::vector<std::vector<StepReport>> of_rank;
  std::vector<RankStats> stats;               // of the last step
  std::map<std::string, at::Tensor> weights;  // by the name of the first use
  std::vector<double> losses() const {
    std::vector<double> values;
    for (const StepReport& report : reports) values.push_back(report.loss);
    return values;
  }
};

// Losses, norms and weights are the same bits.
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

// The same for replicas of it, as a plan makes it. num_microbatches: of one replica.
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

// What the replica of `rank` gets of a batch of all replicas.
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

struct TrainingRun {
  std::function<Model()> model;  // called on every rank's thread
  Partition partition;
  Program program;
  std::vector<StepBatch> steps;  // of all replicas
  TrainerOptions options;
  double lr = 0.01;
  // Endpoints of so many ranks, all in this process.
  std::function<std::vector<std::unique_ptr<Transport>>(int, const TransportOptions&)>
      make_endpoints = make_local_transports;
  // Weights come from here, or are drawn.
  const HfDirectory* weights = nullptr;
  const ModelSpec* spec = nullptr;
  MemoryLedger* ledger = nullptr;
  std::function<void(int rank, TrainerOptions&)> per_rank;
  std::function<void(Trainer&, Transport&)> before_steps, after_steps;
};

inline TrainingResult run_training(const TrainingRun& run) {
  TrainingResult result;
  const Mesh& mesh = run.program.mesh;
  result.of_rank.resize(static_cast<std::size_t>(mesh.num_ranks()));
  std::mutex mutex;
  const auto transports = run.make_endpoints(mesh.num_ranks(), {});
  run_ranks(transports, 1, run.ledger, [&](Transport& transport) {
    const Model model = run.model();
    TrainerOptions options = run.options;
    options.ledger = run.ledger;
    if (run.per_rank) run.per_rank(transport.rank(), options);
    Trainer trainer(model, run.partition, run.program, transport, options);
    if (run.weights) {
      trainer.load_weights(*run.weights, *run.spec);
    } else {
      trainer.draw_weights();
    }
    if (run.before_steps) run.before_steps(trainer, transport);
    std::vector<StepReport>& reports = result.of_rank[transport.rank()];
    for (const StepBatch& step : run.steps)
      reports.push_back(trainer.step(batch_of_rank(step, mesh, transport.rank()), run.lr));
    const std::vector<RankStats> stats = trainer.gather_stats(trainer.times());
    if (run.after_steps) run.after_steps(trainer, transport);
    if (run.options.data_parallel.zero3) {
      const RankState whole = trainer.state(transport.world());
      const std::lock_guard lock(mutex);
      result.stats = stats;
      for (const auto& [name, value] : whole.parameters) result.weights[name] = value.clone();
      return;
    }
    const std::lock_guard lock(mutex);
    result.stats = stats;
    for (const ParameterInfo& info : trainer.parameters()) {
      if (!info.tied_to.empty()) continue;
      const auto [known, added] = result.weights.emplace(info.name, info.tensor.detach().clone());
      if (!added && !at::equal(known->second, info.tensor))
        throw std::logic_error("replicas have other values of '" + info.name + "'");
    }
  });
  result.reports = result.of_rank.front();
  return result;
}

}  // namespace sluice::test
