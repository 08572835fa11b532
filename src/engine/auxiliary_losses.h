// The auxiliary losses of one step on this rank, and what their backwards start with.
//
// Owns: which values are one, and their values, as tensors until somebody asks, so that a GPU need
// not be waited for. Does not own: how the mean of a microbatch weighs (StepLosses).
// Thread-safety: one rank's thread.
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
  // Those among the outputs of a stage, with their graphs. Throws Error(kUsage) for one that is not
  // one floating-point number.
  std::vector<at::Tensor> take(int stage, int microbatch, const Values& outputs);
  // Puts the gradients of what take() returned before those of the stage's other outputs. weight:
  // of the mean loss of the microbatch in what is differentiated.
  void put_gradients(int stage, int microbatch, double weight,
                     std::vector<at::Tensor>& gradients) const;
  // Values of the step, by stage, then in the order of its layers, then by microbatch.
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
  std::map<std::pair<int, int>, std::vector<Taken>> taken_;  // by stage and microbatch
};

}  // namespace sluice
