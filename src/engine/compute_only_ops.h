// Runs a step without reductions and updates, by forwarding only calls that the compute needs.
#pragma once

#include "engine/executor.h"

namespace sluice {

class ComputeOnlyOps final : public StepOps {
 public:
  explicit ComputeOnlyOps(StepOps& ops) : ops_(ops) {}
  Work<void> unshard(int stage) override { return ops_.unshard(stage); }
  void reshard(int stage) override { ops_.reshard(stage); }
  Work<void> reduce_gradients(int /*stage*/, std::optional<int> /*microbatch*/) override {
    return Work<void>::done();
  }
  Work<void> reduce_tied(int /*group*/) override { return Work<void>::done(); }
  Work<void> reduce_loss() override { return Work<void>::done(); }
  Work<void> gather_outputs() override { return Work<void>::done(); }
  Work<void> reduce_norm() override { return Work<void>::done(); }
  IdleWork partial_norm(int /*stage*/) override { return {}; }
  Work<void> update(int /*stage*/) override { return Work<void>::done(); }
  void optimizer_step() override {}

 private:
  StepOps& ops_;
};

}  // namespace sluice
