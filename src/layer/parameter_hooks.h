// Adds the gradients of a stage's parameters to their sums as autograd produces them, instead of
// writing `.grad`.
//
// Backwards of other pipelines with the same modules are unaffected. The destructor removes the
// hooks. On CUDA, autograd's thread runs the hooks while the rank's thread waits.
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
  ParameterHooks(const std::vector<ParameterInfo>& parameters, const GradientSums& sums,
                 std::string place);

  // Throws Error(kUsage) if a parameter was moved, converted or unfrozen, because its sum would
  // miss gradients.
  void check(const std::vector<ParameterInfo>& parameters) const;
  // Returns the sum for this AccumulateGrad node, or null if the leaf is not a parameter.
  GradientSum* sum_of(const torch::autograd::Node* node) const;
  SumTarget target(const torch::autograd::Node* leaf) override;

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
      // One AccumulateGrad node per parameter, null if frozen. Parameters do not keep their nodes
      // alive.
      nodes_;
  std::unordered_map<const torch::autograd::Node*, GradientSum*> sums_;
  const std::shared_ptr<bool> running_ = std::make_shared<bool>(false);
};

}  // namespace sluice
