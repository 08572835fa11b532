// The auxiliary losses of one rank in one step. They stay tensors until values(), because reading
// them waits for a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/executor.h"

namespace sluice {

class AuxiliaryLosses {
 public:
  explicit AuxiliaryLosses(std::vector<AuxiliaryLoss> losses) : losses_(std::move(losses)) {}

  bool has(const std::string& value) const { return find(value) != nullptr; }
  // Returns the auxiliary losses among a stage's outputs, with their autograd graphs. Throws
  // Error(kUsage) unless each is one floating-point number.
  std::vector<at::Tensor> take(int stage, int microbatch, const Values& outputs);
  // Inserts the gradients of the losses from take() at the front of `gradients`. weight: from
  // StepLosses::weight().
  void put_gradients(int stage, int microbatch, double weight,
                     std::vector<at::Tensor>& gradients) const;
  std::vector<MicrobatchAuxiliary> values() const;
  void clear() { taken_.clear(); }

 private:
  struct Taken {
    std::string name;
    double scale;
    at::Tensor value;
  };
  const AuxiliaryLoss* find(const std::string& value) const;

  std::vector<AuxiliaryLoss> losses_;
  std::map<std::pair<int, int>, std::vector<Taken>> taken_;
};

}  // namespace sluice
