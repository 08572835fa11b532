// Trains a model in one plain loop and through a pipeline, to compare the bits.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "engine/ledger_observer.h"
#include "engine/rank_threads.h"
#include "layer/initialize_chunks.h"
#include "sluice/layer.h"
#include "sluice/parts/observers.h"
#include "sluice/parts/stage.h"
#include "sluice/parts/transport.h"
#include "sluice/verify.h"
#include "support/callback_observer.h"
#include "support/even_partition.h"
#include "support/plain_sgd.h"

namespace sluice::test {

struct TrainedModel {
  std::vector<double> losses;  // mean over counted values, one per step
  std::map<std::string, at::Tensor> weights;
  std::vector<std::string> errors;                   // per rank; "" for none
  std::vector<bool> split;                           // per stage: whether its backward was split
  std::vector<std::string> flight_records;           // per rank
  std::vector<std::optional<NonFinite>> non_finite;  // per rank, when options.find_non_finite
};

inline bool same_bits(const TrainedModel& a, const TrainedModel& b) {
  if (a.losses != b.losses || a.weights.size() != b.weights.size()) return false;
  for (const auto& [name, tensor] : a.weights) {
    const auto other = b.weights.find(name);
    if (other == b.weights.end() || tensor.sizes() != other->second.sizes()) return false;
    if (std::memcmp(tensor.const_data_ptr(), other->second.const_data_ptr(), tensor.nbytes()) != 0)
      return false;
  }
  return true;
}

struct HarnessOptions {
  std::uint64_t seed = 11;
  double lr = 0.05;
  ExecutorOptions executor;
  // Every rank has one observer. `observers_of` adds more.
  std::function<void(int rank, CallbackObserver&)> per_rank;
  std::function<std::vector<ExecutorObserver*>(int rank)> observers_of;
  // Autograd if empty, or if it returns an empty maker.
  std::function<ChunkBackwardMaker(int stage)> backward_of;
  TransportOptions transport;
  MemoryLedger* ledger = nullptr;
  bool find_non_finite = false;  // after the last step, on its batch
  // Runs on each rank's thread after each step.
  std::function<void(int rank, std::vector<Stage*>)> after_step;
};

inline void set_one_thread() {
  at::set_num_threads(1);
  at::get_num_threads();
}

inline double mean_loss(const std::vector<MicrobatchLoss>& losses) {
  double sum = 0;
  std::int64_t count = 0;
  for (const MicrobatchLoss& loss : losses) {
    sum += loss.sum;
    count += loss.count;
  }
  return sum / static_cast<double>(count);
}

// Uses LibTorch's backward into `.grad`. Microbatches run backward in `backward_order` (empty: 0,
// 1, 2, ...).
inline TrainedModel train_in_one_loop(const Model& model, const std::vector<StepBatch>& steps,
                                      const HarnessOptions& options,
                                      std::vector<int> backward_order = {}) {
  set_one_thread();
  Chunk chunk(model.layers, 0, {}, model.outputs);
  initialize_parameters(chunk, options.seed);
  chunk.train(true);
  TrainedModel result;
  for (const StepBatch& step : steps) {
    std::int64_t count = 0;
    for (std::int64_t c : step.counts) count += c;
    std::vector<double> sums(step.microbatches.size());
    std::vector<at::Tensor> losses;
    for (std::size_t m = 0; m < step.microbatches.size(); ++m) {
      const Values batch = step.microbatches.at(m);
      const Values outputs =
          chunk.forward(Values(), batch, options.seed, step.step, static_cast<std::int64_t>(m));
      losses.push_back(model.loss(outputs, batch).loss);
      sums[m] = losses.back().item<double>();
    }
    if (backward_order.empty()) {
      for (std::size_t m = 0; m < losses.size(); ++m) backward_order.push_back(static_cast<int>(m));
    }
    for (int m : backward_order) {
      at::Tensor& loss = losses[m];
      torch::autograd::backward({loss}, {at::full_like(loss, 1.0 / static_cast<double>(count))});
      loss.reset();
    }
    double sum = 0;
    for (double s : sums) sum += s;
    result.losses.push_back(sum / static_cast<double>(count));

    at::NoGradGuard no_grad;
    std::map<std::string, at::Tensor> gradients;  // of ties, summed in layer order
    for (ParameterInfo& info : chunk.parameters()) {
      if (!info.tensor.grad().defined()) continue;
      at::Tensor& gradient = gradients[info.tied_to.empty() ? info.name : info.tied_to];
      gradient = gradient.defined() ? gradient + info.tensor.grad() : info.tensor.grad();
    }
    for (ParameterInfo& info : chunk.parameters()) {
      if (info.tied_to.empty() && gradients.count(info.name))
        info.tensor.sub_(gradients[info.name] * options.lr);
      info.tensor.mutable_grad().reset();
    }
  }
  for (ParameterInfo& info : chunk.parameters()) {
    if (info.tied_to.empty()) result.weights[info.name] = info.tensor.detach().clone();
  }
  return result;
}

// Returns a verified program with transfers, tied sums, norm and update.
inline Program lowered(const Schedule& schedule, std::vector<TieGroup> tie_groups = {}) {
  LowerOptions options;
  options.tie_groups = std::move(tie_groups);
  options.optimizer_step = true;
  options.norm = true;
  Program program = lower(schedule, options);
  require_verified(verify(program), schedule.name);
  return program;
}

inline void keep_results(TrainedModel& result, int rank, const RankStages& stages,
                         Executor& executor) {
  result.flight_records[rank] = executor.flight_record();
  for (const auto& stage : stages.stages()) {
    result.split[stage->index()] = stage->splits_backward();
    for (ParameterInfo& info : stage->parameters()) {
      if (info.tied_to.empty()) result.weights[info.name] = info.tensor.detach().clone();
    }
  }
}

inline TrainedModel train_in_pipeline(const Model& model, const Program& program,
                                      const std::vector<StepBatch>& steps,
                                      const HarnessOptions& options) {
  const Partition partition = even_partition(model, program.stage_map);
  const auto num_ranks = static_cast<std::size_t>(program.num_ranks());
  TrainedModel result;
  result.errors.resize(num_ranks);
  result.split.resize(static_cast<std::size_t>(program.num_stages()));
  result.flight_records.resize(num_ranks);
  result.non_finite.resize(num_ranks);
  std::mutex mutex;
  const auto run_rank = [&](Transport& transport) {
    const int rank = transport.rank();
    RankStages stages = build_stages(model, partition, rank, {.backward_of = options.backward_of});
    stages.draw_weights(options.seed);
    PlainSgd ops(stages.pointers(), program, transport.world(), options.lr);
    ExecutorOptions executor_options = options.executor;
    executor_options.seed = options.seed;
    auto& observers = executor_options.observers;
    std::optional<LedgerObserver> arrivals;
    if (options.ledger) observers.push_back(&arrivals.emplace(*options.ledger, rank));
    CallbackObserver observer;
    if (options.per_rank) options.per_rank(rank, observer);
    observers.push_back(&observer);
    if (options.observers_of) {
      for (ExecutorObserver* one : options.observers_of(rank)) observers.push_back(one);
    }
    Executor executor(program, rank, stages.pointers(), transport, ops, model.loss,
                      executor_options);
    try {
      for (const StepBatch& step : steps) {
        executor.run_step(step);
        if (!executor.losses().empty()) {
          const std::lock_guard lock(mutex);
          result.losses.push_back(mean_loss(executor.losses()));
        }
        if (options.after_step) options.after_step(rank, stages.pointers());
      }
      if (options.find_non_finite) result.non_finite[rank] = executor.find_non_finite(steps.back());
    } catch (const Error& error) {
      result.errors[rank] = error.what();
    }
    const std::lock_guard lock(mutex);
    keep_results(result, rank, stages, executor);
  };
  try {
    run_ranks(make_local_transports(program.num_ranks(), options.transport), 1, options.ledger,
              run_rank);
  } catch (const Error&) {
    // All ranks throw, and each rank has stored its own error.
    if (std::all_of(result.errors.begin(), result.errors.end(), std::mem_fn(&std::string::empty)))
      throw;
  }
  return result;
}

}  // namespace sluice::test
