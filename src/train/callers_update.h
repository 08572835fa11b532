// What follows steps whose optimizer is the caller's: the plan's update program, in which that
// optimizer steps once, and replicas then get the blocks that others have updated.
//
// Owns: the program, its executor. Does not own: the optimizer.
// Thread-safety: one rank's thread.
#pragma once

#include <functional>
#include <string>

#include "run/executor.h"
#include "sluice/plan.h"
#include "train/rank_model.h"

namespace sluice {

class CallersUpdate {
 public:
  // Proves the program. References must outlive it.
  CallersUpdate(const Plan& plan, const RankModel& rank, Transport& transport);
  CallersUpdate(const CallersUpdate&) = delete;
  CallersUpdate& operator=(const CallersUpdate&) = delete;

  // Collective. step: of the optimizer. number: of the last training step, for messages.
  void run(const std::function<void()>& step, std::int64_t number);
  const Program& program() const { return program_; }
  std::string flight_record() const { return executor_.flight_record(); }

 private:
  // The first instruction of the row lets the optimizer step, with all stages; each UPDATE then
  // shares its stage.
  class Ops final : public StepOps {
   public:
    explicit Ops(const RankModel& rank) : rank_(rank) {}
    void begin(const std::function<void()>& step) { step_ = &step; }

    Work<void> update(int stage) override;
    void optimizer_step() override;
    Work<void> unshard(int stage) override;
    void reshard(int stage) override;
    Work<void> reduce_gradients(int stage, std::optional<int> microbatch) override;
    Work<void> reduce_tied(int group) override;
    Work<void> reduce_loss() override;
    Work<void> gather_outputs() override;
    Work<void> reduce_norm() override;
    IdleWork partial_norm(int stage) override;

   private:
    const RankModel& rank_;
    const std::function<void()>* step_ = nullptr;  // null: it has stepped
  };

  const RankModel& rank_;
  const Program program_;
  Ops ops_;
  Executor executor_;
};

}  // namespace sluice
