// The update of this rank's parameters: clipping, the optimizer, its state.
//
// Does not own: gradients (Stage), the decision to update (train_ops.h).
// Thread-safety: one rank's thread.
#pragma once

#include <memory>
#include <vector>

#include "sluice/optimizer.h"
#include "train/parameter_list.h"

namespace sluice {

class Update {
 public:
  // parameters must outlive it.
  Update(const OptimizerOptions& options, const std::vector<SharedParameter>& parameters);

  // grad_norm: of all gradients, for clipping.
  void run(double lr, double grad_norm);
  const Optimizer& optimizer() const { return *optimizer_; }

 private:
  const std::vector<SharedParameter>& parameters_;
  const double max_norm_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace sluice
