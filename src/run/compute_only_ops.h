// The step without its end: what compute needs of a rank's StepOps is passed on, sums and update
// are not.
#pragma once

#include "sluice/parts/executor.h"

namespace sluice {

class ComputeOnlyOps final : public StepOps {
 public:
  explicit ComputeOnlyOps(StepOps& ops) : ops_(ops) {}
  void unshard(int stage) override { ops_.unshard(stage); }
  void reshard(int stage) override { ops_.reshard(stage); }
  void reduce_gradients(int /*stage*/) override {}
  void reduce_tied(int /*group*/) override {}
  void reduce_norm() override {}
  void optimizer_step() override {}

 private:
  StepOps& ops_;
};

}  // namespace sluice
