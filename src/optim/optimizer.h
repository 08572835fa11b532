// Updates one rank's parameters from their gradients, at a rate that depends on the step.
//
// Owns: the optimizer's state, one entry per parameter, keyed by its full name; the learning rate.
// Does not own: gradients (Stage), their norm (gradient_norm.h).
//
// Invariants:
//  1. The update of a parameter is a function of that parameter, its gradient and its state alone,
//     element by element: it does not depend on which other parameters this rank has, on alignment
//     or on the number of threads.
//  2. A parameter without a gradient is left alone, and so is its state.
//
// AdamW of float32 parameters on the CPU is our own kernel (ops/kernels), compiled for several
// instruction sets: its last bits depend on the processor, not on layout, threads or any option.
// SGD of them, float64 parameters and those on CUDA are updated by LibTorch's fused kernels. Other
// devices, half-precision parameters and float32 gradients of half-precision parameters are updated
// by elementary operators in float32 (float64 state stays float64), with float32 state. On the CPU
// all state of one type lies side by side in one buffer, on 2 MiB pages where the system has them.
// Thread-safety: one rank's thread.
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

// A leaf variable; step() reads its grad(). The name decides on weight decay.
struct OptimizedParameter {
  std::string name;
  at::Tensor value;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One update of the parameters with these indices, with gradients divided by `grad_scale`
  // (clipping: 1 / coefficient). May overwrite the gradients.
  virtual void step(std::span<const std::size_t> members, double lr, double grad_scale) = 0;
  // One update of all of them.
  void step(double lr, double grad_scale = 1.0);

  // {"exp_avg/model.norm.weight", tensor}, ...: what a checkpoint has to hold beside parameters.
  virtual std::vector<std::pair<std::string, at::Tensor>> state() const = 0;
  virtual std::size_t num_parameters() const = 0;
  std::int64_t state_bytes() const;
};

// AdamW (Loshchilov and Hutter, arXiv 1711.05101): weight decay apart from the gradient, moments
// corrected for their bias; as torch.optim.AdamW. SGD: no momentum, weight decay added to the
// gradient; as torch.optim.SGD. options.weight_decay holds for every parameter whose name matches
// none of options.no_decay.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<OptimizedParameter> parameters);

}  // namespace sluice
