// One rank of a running pipeline, with its stages, programs and state. Pipeline is the public
// interface.
//
// The training program is the plan's, optionally with outputs gathered. It is verified before
// weights are initialized.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "engine/fault_injection.h"
#include "engine/ledger_observer.h"
#include "sluice/model.h"
#include "sluice/parts/observers.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/saver.h"
#include "sluice/parts/transport.h"
#include "sluice/plan.h"
#include "train/callers_update.h"
#include "train/evaluator.h"
#include "train/rank_model.h"
#include "train/step_runner.h"
#include "train/trainers_update.h"

namespace sluice {

class Checkpoint;

class PipelineRank {
 public:
  // Collective over the plan's mesh. plan: a complete plan, or null to complete `draft` from the
  // parameters that train. Throws Error(kUsage) on every rank, naming a layer, if other parameters
  // train than planned.
  PipelineRank(const Model& model, const Plan* plan, std::optional<Plan> draft,
               Transport& transport, RunOptions options);
  PipelineRank(const PipelineRank&) = delete;
  PipelineRank& operator=(const PipelineRank&) = delete;

  const Plan& plan() const { return plan_; }
  const RunOptions& options() const { return options_; }
  Transport& transport() const { return transport_; }
  RankModel& share() { return *share_; }
  const RankModel& share() const { return *share_; }
  bool has_trained() const { return !training_.empty(); }
  bool has_run() const { return has_trained() || evaluation_; }

  // Trainer calls this before the first step. Null removes the update from later steps.
  void set_update(TrainersUpdate* update) { update_ = update; }
  const TrainersUpdate* update() const { return update_; }

  // Collective. With an update or RunOptions::requires_finite, throws Error(kNotFinite) on every
  // rank if loss or norm is not finite.
  StepResult train(const StepBatch& batch, const StepOptions& options);
  // Without an update, sums the gradients of ties within this rank.
  void finish_ties();
  // Collective. Calls `step` once, then sends the updated blocks to all replicas. number: the last
  // training step.
  void update(const std::function<void()>& step, std::int64_t number);
  // Collective. Each replica has its own batch of any size.
  StepResult evaluate(const StepBatch& batch, const StepOptions& options);
  // Collective. Computes no loss, so the batch's counts are 0.
  std::vector<Values> predict(const StepBatch& batch, OutputRanks ranks);
  const std::vector<MicrobatchLoss>& evaluated_losses() const { return evaluation_->losses(); }

  // Returns this rank's part of a checkpoint. Collective over `groups`, which may differ from the
  // steps' groups, if tensors are divided among ranks.
  RankState state(const RunGroups& groups) const;
  // Adds the optimizer state from optimizer_of to state(groups).
  RankState state(const RunGroups& groups,
                  const std::function<NamedTensors(const RankState& held)>& optimizer_of) const;
  // Returns parameters and buffers. all: include those that RunOptions::saves leaves out.
  RankState weights(const RunGroups& groups, bool all) const;
  // Collective. rest: called for each stage before loading. Returns the training parameters of all
  // ranks without saved optimizer state.
  std::vector<std::string> load(const Checkpoint& checkpoint, const FillStage& rest);

  const StepTimes& times() const;
  std::string flight_record() const;
  // Index of the running instruction, or -1.
  int current_instruction() const { return current_.index; }

 private:
  struct CurrentInstruction final : ExecutorObserver {
    void begin(int at, const Action& /*action*/) override { index = at; }
    void end_step() override { index = -1; }
    int index = -1;
  };

  void finish_or_check_plan(const Model& model);
  void require_weights(const char* call) const;
  StepRunner& training_runner(bool gathers_outputs);
  Evaluator& evaluator();
  std::vector<ShardedTensor> sharded_parameters(bool all) const;
  RankState held_weights(const RunGroups& groups, bool all) const;
  RankState gathered(RankState held, const RunGroups& groups) const;
  // Whether this rank holds the first copy of parameters that other replicas lack or hold again.
  bool holds_first_copy() const;
  bool saves(const std::string& parameter) const;

  std::optional<Plan> finished_;
  const Plan& plan_;
  Transport& transport_;
  const RunOptions options_;
  const std::unique_ptr<FaultInjector> faults_;
  std::unique_ptr<RankModel> share_;
  const ModelEnd end_;
  const std::shared_ptr<const Model> other_evaluation_;  // null: use the training layers
  CurrentInstruction current_;
  std::optional<LedgerObserver> arrivals_;
  std::vector<ExecutorObserver*> observers_, training_observers_;
  TrainersUpdate* update_ = nullptr;
  StepUpdate no_update_;
  std::map<bool, StepRunner> training_;  // key: whether outputs are gathered
  std::optional<Evaluator> evaluation_;
  StepRunner* last_trained_ = nullptr;
  std::optional<CallersUpdate> callers_update_;
  std::optional<StepRunner> callers_runner_;
  enum class Ran { kTraining, kEvaluation, kUpdate } ran_last_ = Ran::kTraining;
};

}  // namespace sluice
