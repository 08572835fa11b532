// `.grad` of this rank's parameters or own blocks, summed since it was last cleared.
//
// With several ranks, gradients are withheld until the caller requests the parameters. An optimizer
// made before may hold another module's tensors, or the tensors of all ranks, on which they would
// race.
#pragma once

#include <map>
#include <vector>

#include "train/callers_parameters.h"

namespace sluice {

class Grads {
 public:
  Grads(const CallersParameters& parameters, bool has_several_ranks)
      : parameters_(parameters), are_held_(has_several_ranks) {}

  // Adds a step's gradients. Moves blocks out of the stages, which frees memory. If the caller has
  // changed `.grad`, the sum continues from there.
  void add_step();
  void scale(double factor);
  void clear();
  // Returns the gradient of a parameter's first use here, or an undefined tensor.
  at::Tensor of(const ParameterUse& use);

  // Call this when the parameters are requested.
  void give_out();
  // If a step ran without this request, throws Error(kUsage) with several ranks, otherwise warns
  // once.
  void require_parameters_requested(int rank);

 private:
  struct Sum {
    at::Tensor value;           // float32
    at::Tensor grad;            // the `.grad` that `value` was copied to
    std::uint32_t version = 0;  // version of `grad` when we last wrote it
  };
  at::Tensor& grad_of(const at::Tensor& parameter);
  void add(const at::Tensor& parameter, const at::Tensor& gradient);
  Sum& sum_of(const at::Tensor& parameter);
  void show(Sum& sum, const at::Tensor& parameter);

  const CallersParameters& parameters_;
  std::map<const void*, Sum> sums_;         // half precision only
  std::map<const void*, at::Tensor> held_;  // withheld until give_out()
  bool are_held_;
  bool parameters_requested_ = false, has_warned_ = false;
  bool has_step_ = false;
};

}  // namespace sluice
