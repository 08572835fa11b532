// One rank of a pipeline at work, for every plan: its stages and groups, the programs that train
// and evaluate, its state. Pipeline is its face to users, Trainer gives it an update.
//
// Owns: all that Pipeline and Trainer have in common. Does not own: `.grad` and the caller's
// optimizer (pipeline.cpp), data, what is checked of a call.
//
// Invariant: what trains is the plan's program, or the same with outputs gathered; it is known
// before weights are drawn, and proven.
// Thread-safety: one rank's thread.
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
  // Collective over the ranks of the plan's mesh. References must outlive it. plan: whole, of what
  // the modules train; Error(kUsage) on every rank, naming a layer, where that is otherwise. Null:
  // `draft` is the plan, and is finished by what the modules train (detail::draft_plan).
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

  // Before the first step, once: Trainer's. Null: nobody's any more.
  void set_update(TrainersUpdate* update) { update_ = update; }
  const TrainersUpdate* update() const { return update_; }

  // Collective. One step. Throws, where an update or RunOptions::requires_finite asks for it,
  // Error(kNotFinite) on every rank.
  StepResult train(const StepBatch& batch, const StepOptions& options);
  // Without an update: gradients of ties within this rank are sums, too.
  void finish_ties();
  // Collective. The plan's update, of a caller's optimizer whose step() is called once: after it
  // all replicas have all weights. number: of the last training step.
  void update(const std::function<void()>& step, std::int64_t number);
  // Collective. Each replica has its own batch, of any number of microbatches.
  StepResult evaluate(const StepBatch& batch, const StepOptions& options);
  // Collective. Outputs without a loss, of a batch that counts nothing.
  std::vector<Values> predict(const StepBatch& batch, OutputRanks ranks);
  // Losses of the last evaluation, of all microbatches in order; the same on every rank.
  const std::vector<MicrobatchLoss>& evaluated_losses() const { return evaluation_->losses(); }

  // The part of a checkpoint that this rank holds. Where replicas have their own blocks: collective
  // over the ranks of `groups`, which may be others than those of the steps.
  RankState state(const RunGroups& groups) const;
  // The same with the state of a caller's optimizers, which optimizer_of gives of the parameters
  // that this rank holds.
  RankState state(const RunGroups& groups,
                  const std::function<NamedTensors(const RankState& held)>& optimizer_of) const;
  // Parameters and buffers alone. all: also what RunOptions::saves leaves out.
  RankState weights(const RunGroups& groups, bool all) const;
  // Collective. Fills all that state() says; rest: called for each stage before. Returns the
  // parameters of all ranks that train and have no optimizer state there.
  std::vector<std::string> load(const Checkpoint& checkpoint, const FillStage& rest);

  const StepTimes& times() const;
  std::string flight_record() const;
  // Index of the instruction of the plan's program that runs, -1 when none does.
  int current_instruction() const { return current_.index; }

 private:
  struct CurrentInstruction final : ExecutorObserver {
    void begin(int at, const Action& /*action*/) override { index = at; }
    void end_step() override { index = -1; }
    int index = -1;
  };

  void finish_or_check_plan(const Model& model);  // by what the modules train
  // Throws Error(kUsage) where nobody has put any in.
  void require_weights(const char* call) const;
  StepRunner& training_runner(bool gathers_outputs);
  Evaluator& evaluator();
  std::vector<ShardedTensor> sharded_parameters(bool all) const;
  // With the slices of this rank, where several share them.
  RankState held_weights(const RunGroups& groups, bool all) const;
  RankState gathered(RankState held, const RunGroups& groups) const;
  bool saves(const std::string& parameter) const;

  std::optional<Plan> finished_;
  const Plan& plan_;
  Transport& transport_;
  const RunOptions options_;
  const std::unique_ptr<FaultInjector> faults_;  // faults of SLUICE_FAULT
  std::unique_ptr<RankModel> share_;
  const ModelEnd end_;
  const std::shared_ptr<const Model> other_evaluation_;  // null: the layers that train
  CurrentInstruction current_;
  std::optional<LedgerObserver> arrivals_;
  std::vector<ExecutorObserver*> observers_, training_observers_;
  TrainersUpdate* update_ = nullptr;
  StepUpdate nobodys_update_;
  std::map<bool, StepRunner> training_;  // by whether outputs are gathered
  std::optional<Evaluator> evaluation_;
  StepRunner* last_trained_ = nullptr;
  std::optional<CallersUpdate> callers_update_;
  std::optional<StepRunner> callers_runner_;  // runner of that program
  enum class Ran { kTraining, kEvaluation, kUpdate } ran_last_ = Ran::kTraining;
};

}  // namespace sluice
