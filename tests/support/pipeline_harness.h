// Runs a model by plain autograd in one loop, and through a pipeline, to compare the bits.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "sluice/layer.h"
#include "sluice/parts/executor.h"
#include "sluice/parts/keyed_random.h"
#include "sluice/parts/memory_ledger.h"
#include "sluice/parts/stage.h"
#include "sluice/transport.h"
#include "sluice/verify.h"
#include "support/callback_observer.h"

namespace sluice::test {

struct TrainedModel {
  std::vector<double> losses;  // mean over counted values, one a step
  std::map<std::string, at::Tensor> weights;
  std::vector<std::string> errors;                   // per rank; "" where none
  std::vector<bool> split;                           // per stage: did its backward split
  std::vector<std::string> flight_records;           // per rank
  std::vector<std::optional<NonFinite>> non_finite;  // per rank, when options.find_non_finite
};

// Same names, same bits.
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

struct HarnessModel {
  std::vector<LayerSpec> layers;
  LossFunction loss;
  std::vector<std::string> batch_inputs;
  std::vector<std::string> final_outputs;
};

struct HarnessOptions {
  std::uint64_t seed = 11;
  double lr = 0.05;
  ExecutorOptions executor;
  // One observer is there on every rank; more of one's own follow it.
  std::function<void(int rank, CallbackObserver&)> per_rank;
  std::function<std::vector<ExecutorObserver*>(int rank)> observers_of;
  // Empty, or an empty one of a stage: autograd's.
  std::function<ChunkBackwardMaker(int stage)> backward_of;
  TransportOptions transport;
  MemoryLedger* ledger = nullptr;
  bool find_non_finite = false;  // after the last step, on the last batch
  // Called on each rank's thread after each step.
  std::function<void(int rank, std::vector<Stage*>)> after_step;
};

inline void set_one_thread() {
  at::set_num_threads(1);
  at::get_num_threads();
}

// SGD on the sums; ties are summed in layer order.
class PlainSgd final : public StepOps {
 public:
  // Collective when the program has ties.
  PlainSgd(std::vector<Stage*> stages, const Program& program, const Group& world, double lr)
      : stages_(std::move(stages)), program_(program), lr_(lr) {
    for (const TieGroup& tie : program.tie_groups) {
      const bool is_member = std::any_of(tie.stages.begin(), tie.stages.end(), [&](int stage) {
        return program.stage_map.rank_of(stage) == world.rank();
      });
      tie_groups_.push_back(world.split(is_member ? 0 : -1));
    }
  }
  Work<void> unshard(int) override { return Work<void>::done(); }
  void reshard(int) override {}
  Work<void> reduce_gradients(int) override { return Work<void>::done(); }
  Work<void> reduce_tied(int group) override {
    const TieGroup& tie = program_.tie_groups[static_cast<std::size_t>(group)];
    std::map<int, at::Tensor> by_layer;
    for_uses(tie.name,
             [&](ParameterInfo& info, at::Tensor& gradient) { by_layer[info.layer] = gradient; });
    std::string layers;
    std::vector<at::Tensor> mine;
    for (auto& [layer, gradient] : by_layer) {
      layers += std::to_string(layer) + " ";
      mine.push_back(gradient);
    }
    const Group& ranks = tie_groups_[static_cast<std::size_t>(group)];
    const auto all_layers = ranks.all_gather(layers).wait();
    const auto all = ranks.all_gather(at::stack(mine)).wait();
    std::map<int, at::Tensor> sorted;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::istringstream text(all_layers[i]);
      int layer = 0;
      for (std::int64_t k = 0; text >> layer; ++k) sorted[layer] = all[i][k];
    }
    at::Tensor sum;
    for (auto& [layer, gradient] : sorted) sum = sum.defined() ? sum + gradient : gradient.clone();
    for_uses(tie.name, [&](ParameterInfo&, at::Tensor& gradient) { gradient = sum; });
    summed_.insert(tie.name);
    return Work<void>::done();
  }
  Work<void> reduce_loss() override { return Work<void>::done(); }
  Work<void> reduce_norm() override { return Work<void>::done(); }
  void optimizer_step() override {
    if (lr_ == 0) return;
    at::NoGradGuard no_grad;
    std::map<std::string, std::map<int, at::Tensor>> ties;
    std::map<std::string, at::Tensor> tensors;
    for (Stage* stage : stages_) {
      for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
        ParameterInfo& info = stage->parameters()[i];
        if (!stage->gradient(i).defined()) continue;
        const std::string name = info.tied_to.empty() ? info.name : info.tied_to;
        ties[name][info.layer] = stage->gradient(i);
        tensors[name] = info.tensor;
      }
    }
    for (auto& [name, uses] : ties) {
      at::Tensor sum;
      for (auto& [layer, gradient] : uses) {
        sum = sum.defined() && !summed_.count(name) ? sum + gradient : gradient;
      }
      tensors[name].sub_(sum * lr_);
    }
    summed_.clear();
  }

 private:
  template <typename Use>
  void for_uses(const std::string& name, Use use) {
    for (Stage* stage : stages_) {
      for (std::size_t i = 0; i < stage->parameters().size(); ++i) {
        ParameterInfo& info = stage->parameters()[i];
        if (info.name == name || info.tied_to == name) use(info, stage->gradient(i));
      }
    }
  }
  std::vector<Stage*> stages_;
  const Program& program_;
  double lr_;
  std::set<std::string> summed_;
  std::vector<Group> tie_groups_;
};

// The whole model in this thread, by LibTorch's own backward into `.grad`; microbatches in the
// order of `backward_order` (empty: 0, 1, 2, ...).
inline TrainedModel train_in_one_loop(const HarnessModel& model,
                                      const std::vector<StepBatch>& steps,
                                      const HarnessOptions& options,
                                      std::vector<int> backward_order = {}) {
  set_one_thread();
  Chunk chunk(model.layers, 0, {}, model.final_outputs);
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
      at::Tensor& loss = losses[static_cast<std::size_t>(m)];
      torch::autograd::backward({loss}, {at::full_like(loss, 1.0 / static_cast<double>(count))});
      loss.reset();
    }
    double sum = 0;
    for (double s : sums) sum += s;
    result.losses.push_back(sum / static_cast<double>(count));

    at::NoGradGuard no_grad;
    std::map<std::string, at::Tensor> gradients;  // of ties: summed in layer order
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

// A verified program: transfers, tied sums, norm and update.
inline Program lowered(const Schedule& schedule, std::vector<TieGroup> tie_groups = {}) {
  LowerOptions options;
  options.tie_groups = std::move(tie_groups);
  options.optimizer_step = true;
  options.norm = true;
  Program program = lower(schedule, options);
  require_verified(verify(program), schedule.name);
  return program;
}

// First layer of every stage: as even as it gets, remainder first.
inline std::vector<int> even_starts(int num_layers, int num_stages) {
  std::vector<int> starts;
  for (int s = 0, at = 0; s < num_stages; ++s) {
    starts.push_back(at);
    at += num_layers / num_stages + (s < num_layers % num_stages ? 1 : 0);
  }
  return starts;
}

inline TrainedModel train_in_pipeline(const HarnessModel& model, const Program& program,
                                      const std::vector<StepBatch>& steps,
                                      const HarnessOptions& options) {
  const std::vector<int> starts =
      even_starts(static_cast<int>(model.layers.size()), program.num_stages());
  const auto crossing =
      crossing_values(model.layers, std::vector<int>(starts.begin() + 1, starts.end()),
                      model.batch_inputs, model.final_outputs);
  auto transports = make_local_transports(program.num_ranks(), options.transport);
  TrainedModel result;
  result.errors.resize(static_cast<std::size_t>(program.num_ranks()));
  result.split.resize(static_cast<std::size_t>(program.num_stages()));
  result.flight_records.resize(static_cast<std::size_t>(program.num_ranks()));
  result.non_finite.resize(static_cast<std::size_t>(program.num_ranks()));
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      set_one_thread();
      std::optional<MemoryLedger::Scope> scope;
      if (options.ledger) scope.emplace(*options.ledger, rank);
      std::vector<std::unique_ptr<Stage>> owned;
      std::vector<Stage*> stages;
      std::vector<Chunk*> chunks;
      for (int s = 0; s < program.num_stages(); ++s) {
        if (program.stage_map.rank_of(s) != rank) continue;
        const int first = starts[static_cast<std::size_t>(s)];
        const int last = s + 1 < program.num_stages() ? starts[static_cast<std::size_t>(s) + 1]
                                                      : static_cast<int>(model.layers.size());
        owned.push_back(std::make_unique<Stage>(
            s,
            Chunk({model.layers.begin() + first, model.layers.begin() + last}, first,
                  s ? crossing[static_cast<std::size_t>(s) - 1] : std::vector<std::string>(),
                  s + 1 < program.num_stages() ? crossing[static_cast<std::size_t>(s)]
                                               : model.final_outputs),
            options.backward_of ? options.backward_of(s) : ChunkBackwardMaker()));
        stages.push_back(owned.back().get());
        chunks.push_back(&stages.back()->chunk());
      }
      share_tied_storage(chunks);
      for (Chunk* chunk : chunks) {
        initialize_parameters(*chunk, options.seed);
        chunk->train(true);
      }
      Transport& transport = *transports[static_cast<std::size_t>(rank)];
      PlainSgd ops(stages, program, transport.world(), options.lr);
      ExecutorOptions executor_options = options.executor;
      executor_options.seed = options.seed;
      std::optional<LedgerObserver> arrivals;
      if (options.ledger)
        executor_options.observers.push_back(&arrivals.emplace(*options.ledger, rank));
      CallbackObserver observer;
      if (options.per_rank) options.per_rank(rank, observer);
      executor_options.observers.push_back(&observer);
      if (options.observers_of) {
        for (ExecutorObserver* one : options.observers_of(rank))
          executor_options.observers.push_back(one);
      }
      Executor executor(program, rank, stages, transport, ops, model.loss, executor_options);
      try {
        for (const StepBatch& step : steps) {
          executor.run_step(step);
          if (!executor.losses().empty()) {
            double sum = 0;
            std::int64_t count = 0;
            for (const MicrobatchLoss& loss : executor.losses()) {
              sum += loss.sum;
              count += loss.count;
            }
            std::lock_guard lock(mutex);
            result.losses.push_back(sum / static_cast<double>(count));
          }
          if (options.after_step) options.after_step(rank, stages);
        }
        if (options.find_non_finite) {
          result.non_finite[static_cast<std::size_t>(rank)] =
              executor.find_non_finite(steps.back());
        }
      } catch (const Error& error) {
        result.errors[static_cast<std::size_t>(rank)] = error.what();
      }
      std::lock_guard lock(mutex);
      result.flight_records[static_cast<std::size_t>(rank)] = executor.flight_record();
      for (Stage* stage : stages) {
        result.split[static_cast<std::size_t>(stage->index())] = stage->splits_backward();
        for (ParameterInfo& info : stage->parameters()) {
          if (info.tied_to.empty()) result.weights[info.name] = info.tensor.detach().clone();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

}  // namespace sluice::test
