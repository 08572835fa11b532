// `.grad` of this rank's parameters or of its own blocks: the sum over all steps since it was last
// cleared. For half-precision parameters the sum is kept in float32.
//
// With several ranks, the gradients are withheld until the caller has requested the parameters. A
// caller that has an optimizer without such a request made it from other tensors: those of another
// module, or those of all ranks at once, on which the ranks' optimizers would race.
#pragma once

#include <map>
#include <vector>

#include "train/callers_parameters.h"

namespace sluice {

class Grads {
 public:
  // `parameters` must outlive this object.
  Grads(const CallersParameters& parameters, bool has_several_ranks)
      : parameters_(parameters), are_held_(has_several_ranks) {}

  // Adds the gradients of a step. With blocks, the gradients are moved out of the stages, which
  // frees their memory. If the caller has changed `.grad`, the sum continues from the changed
  // value.
  void add_step();
  void scale(double factor);
  void clear();
  // Returns the gradient of a parameter's first use on this rank; undefined if there is none.
  at::Tensor of(const ParameterUse& use);

  // Call this when the parameters are requested. Releases the withheld gradients.
  void give_out();
  // If there was a step and the parameters were never requested, throws Error(kUsage) with several
  // ranks and warns once with a single rank. rank: for the message.
  void require_asked_for(int rank);

 private:
  struct Sum {
    at::Tensor value;           // float32
    at::Tensor grad;            // the `.grad` that shows `value`
    std::uint32_t version = 0;  // version counter of `grad` at that time
  };
  at::Tensor& grad_of(const at::Tensor& parameter);
  void add(const at::Tensor& parameter, const at::Tensor& gradient);
  Sum& sum_of(const at::Tensor& parameter);
  void show(Sum& sum, const at::Tensor& parameter);

  const CallersParameters& parameters_;
  std::map<const void*, Sum> sums_;         // by parameter; half precision only
  std::map<const void*, at::Tensor> held_;  // by parameter; withheld until give_out()
  bool are_held_;
  bool are_asked_for_ = false, has_warned_ = false;
  bool has_step_ = false;
};

}  // namespace sluice
