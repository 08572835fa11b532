// Sums `.grad` of this rank's parameters, or of the blocks that its replica owns, over steps.
//
// With several ranks, `.grad` stays undefined until the user requests the pipeline's parameters.
// Earlier optimizers may hold another module's tensors, or tensors that several ranks share and
// would race on.
#pragma once

#include <map>
#include <vector>

#include "train/callers_parameters.h"

namespace sluice {

class Grads {
 public:
  Grads(const CallersParameters& parameters, bool has_several_ranks)
      : parameters_(parameters), are_held_(has_several_ranks) {}

  // Adds a step's gradients to `.grad`, even if the user has changed `.grad`. Moves blocks out of
  // the stages, which frees memory.
  void add_step();
  void scale(double factor);
  void clear();
  // Returns an undefined tensor if the parameter's first use on this rank has no gradient.
  at::Tensor of(const ParameterUse& use);

  // Sets the withheld `.grad`. Call this when the user requests parameters.
  void give_out();
  // If a step ran before parameters were requested, throws Error(kUsage) with several ranks,
  // otherwise warns once.
  void require_parameters_requested(int rank);

 private:
  struct Sum {
    at::Tensor value;
    at::Tensor grad;  // the `.grad` that `value` was copied to
    std::uint32_t version = 0;
  };
  at::Tensor& grad_of(const at::Tensor& parameter);
  void add(const at::Tensor& parameter, const at::Tensor& gradient);
  Sum& sum_of(const at::Tensor& parameter);
  void show(Sum& sum, const at::Tensor& parameter);

  const CallersParameters& parameters_;
  std::map<const void*, Sum> sums_;         // only parameters in half precision
  std::map<const void*, at::Tensor> held_;  // `.grad` withheld until give_out()
  bool are_held_;
  bool parameters_requested_ = false, has_warned_ = false;
  bool has_step_ = false;
};

}  // namespace sluice
