// Interface of the update at the end of a step. The base class throws for programs with norms or
// updates.
#pragma once

#include <cstdint>
#include <string>

#include "engine/executor.h"
#include "optim/optimizer.h"
#include "sluice/error.h"
#include "sluice/parts/run_options.h"
#include "sluice/parts/saver.h"
#include "train/rank_model.h"
#include "train/sharded_state.h"
#include "train/step_norm.h"
#include "train/tied_sums.h"

namespace sluice {

class StepUpdate {
 public:
  StepUpdate() = default;
  virtual ~StepUpdate() = default;
  StepUpdate(const StepUpdate&) = delete;
  StepUpdate& operator=(const StepUpdate&) = delete;

  virtual void begin_step() {}
  virtual void loss_known(StepResult& /*result*/) {}
  virtual IdleWork partial_norm(int /*stage*/, const TiedSums& /*ties*/) { refuse("PARTIAL_NORM"); }
  virtual Work<void> reduce_norm(TiedSums& /*ties*/, StepResult& /*result*/) {
    refuse("REDUCE_NORM");
  }
  virtual Work<void> update(int /*stage*/, TiedSums& /*ties*/, const StepResult& /*result*/) {
    refuse("UPDATE");
  }
  virtual void optimizer_step(TiedSums& /*ties*/, const StepResult& /*result*/) {
    refuse("OPTIMIZER_STEP");
  }
  virtual void end_step(std::int64_t /*step*/, const StepResult& /*result*/) {}

 private:
  [[noreturn]] static void refuse(const char* instruction) {
    throw Error(ErrorKind::kInternal,
                {.what = std::string(instruction) + " in a program without such an update"});
  }
};

}  // namespace sluice
