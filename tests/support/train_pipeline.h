// Trains a model with Trainer on ranks that are threads, and keeps everything that can be compared.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

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
  options.norm = true;
  Program program = lower(make_schedule(schedule, shape), options);
  require_verified(verify(program), schedule);
  return program;
}

struct TrainingRun {
  std::function<Model()> model;  // called on every rank's thread
  Partition partition;
  Program program;
  std::vector<StepBatch> steps;
  TrainerOptions options;
  double lr = 0.01;
  // Weights come from here, or are drawn.
  const HfDirectory* weights = nullptr;
  const ModelSpec* spec = nullptr;
  MemoryLedger* ledger = nullptr;
  std::function<void(int rank, TrainerOptions&)> per_rank;
  std::function<void(Trainer&, Transport&)> before_steps, after_steps;
};

inline TrainingResult run_training(const TrainingRun& run) {
  TrainingResult result;
  result.of_rank.resize(static_cast<std::size_t>(run.program.num_ranks()));
  std::mutex mutex;
  const auto transports = make_local_transports(run.program.num_ranks());
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
    for (const StepBatch& step : run.steps) reports.push_back(trainer.step(step, run.lr));
    const std::vector<RankStats> stats = trainer.gather_stats(trainer.times());
    if (run.after_steps) run.after_steps(trainer, transport);
    const std::lock_guard lock(mutex);
    result.stats = stats;
    for (const ParameterInfo& info : trainer.parameters()) {
      if (info.tied_to.empty()) result.weights[info.name] = info.tensor.detach().clone();
    }
  });
  result.reports = result.of_rank.front();
  return result;
}

}  // namespace sluice::test
