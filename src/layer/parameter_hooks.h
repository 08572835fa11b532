// Takes the gradients of a stage's parameters at the engine's edge into their sums, so that nothing
// is ever written to `.grad` during backward and no gradient waits for the end of it. Backwards of
// others through the same parameters, as of a second pipeline of the same modules, are let through.
//
// Nodes that add to the sums by themselves (weight_sums.h) find them here.
//
// Owns: the hooks, which stay as long as it lives. Does not own: the sums.
// Thread-safety: one rank's thread; on CUDA the engine's thread calls the hooks meanwhile.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "layer/split_backward.h"
#include "layer/weight_sums.h"
#include "sluice/parts/chunk.h"

namespace sluice {

class ParameterHooks final : public WeightSums {
 public:
  // place: of the stage, for messages.
  ParameterHooks(const std::vector<ParameterInfo>& parameters, const GradientSums& sums,
                 std::string place);

  // Throws Error(kUsage) for a parameter that was moved, converted or unfrozen since: it would keep
  // its gradients for itself.
  void check(const std::vector<ParameterInfo>& parameters) const;
  // The sum of the parameter whose AccumulateGrad node this is; null: a leaf that is no parameter.
  GradientSum* sum_of(const torch::autograd::Node* node) const;
  SumTarget target(const torch::autograd::Node* leaf) override;

  // While it lives, a backward of the stage runs.
  class Backward {
   public:
    explicit Backward(ParameterHooks& hooks) : running_(*hooks.running_) { running_ = true; }
    ~Backward() { running_ = false; }
    Backward(const Backward&) = delete;
    Backward& operator=(const Backward&) = delete;

   private:
    bool& running_;
  };

 private:
  std::string place_;
  std::vector<NodePtr>
      nodes_;  // per parameter, null: frozen; a parameter holds its node only weakly
  std::unordered_map<const torch::autograd::Node*, GradientSum*> sums_;
  const std::shared_ptr<bool> running_ = std::make_shared<bool>(false);  // a backward of the stage
};

}  // namespace sluice
