// Updates one rank's parameters from their gradients.
//
// An element's update depends only on the element, its gradient and its state, not on alignment or
// the number of threads. Without a gradient, a parameter and its state stay unchanged.
//
// Our own kernel (ops/kernels) runs AdamW of float32 parameters on the CPU. It is compiled for
// several instruction sets, so its last bits depend on the processor. LibTorch's fused kernels run
// SGD, float64 and CUDA. Elementary float32 operators handle other devices and half precision,
// whose gradients are float32. State is float32, or float64 for float64 parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/options.h"

namespace sluice {

// A leaf variable, whose grad() step() reads. Weight decay depends on the name.
struct OptimizedParameter {
  std::string name;
  at::Tensor value;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates the parameters with these indices. Divides gradients by `grad_scale` (1 / clip
  // coefficient), and may overwrite them.
  virtual void step(std::span<const std::size_t> members, double lr, double grad_scale) = 0;
  void step(double lr, double grad_scale = 1.0);

  // Returns the state for a checkpoint: {"exp_avg/model.norm.weight", tensor}, ...
  virtual std::vector<std::pair<std::string, at::Tensor>> state() const = 0;
  virtual std::size_t num_parameters() const = 0;
  std::int64_t state_bytes() const;
};

// AdamW (Loshchilov and Hutter, arXiv 1711.05101) has decoupled weight decay and bias correction,
// as torch.optim.AdamW. SGD adds weight decay to the gradient, as torch.optim.SGD. Weight decay
// skips names that match options.no_decay, which must not have kNormsAndBiases.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<OptimizedParameter> parameters);

}  // namespace sluice
