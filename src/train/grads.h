// `.grad` of the parameters of this rank, or of its own blocks: all steps since it was last
// cleared.
//
// Until somebody has asked for the parameters, those of several ranks are held back: who updates
// parameters by then holds tensors of another module, or those of all ranks at once, on which the
// ranks' optimizers would race.
//
// Owns: the sums in float32 behind the `.grad` of half-precision parameters, and what is held back.
// Does not own: the gradients of a step (Stage), ties (tied_sums.h).
// Thread-safety: one rank's thread.
#pragma once

#include <map>
#include <vector>

#include "train/callers_parameters.h"

namespace sluice {

class Grads {
 public:
  // parameters must outlive it.
  Grads(const CallersParameters& parameters, bool has_several_ranks)
      : parameters_(parameters), are_held_(has_several_ranks) {}

  // Adds the gradients of a step; of blocks it takes them out of the stages, whose memory is free
  // then. A sum continues unless another writer has changed its `.grad`; then it continues from
  // that.
  void add_step();
  void scale(double factor);
  void clear();
  // Gradient of the first use of a parameter on this rank; undefined: none.
  at::Tensor of(const ParameterUse& use);

  // Somebody asks for the parameters.
  void give_out();
  // If there was a step and nobody has asked, throws Error(kUsage) of several ranks, else warns
  // once. rank: for the message.
  void require_asked_for(int rank);

 private:
  struct Sum {
    at::Tensor value;           // float32
    at::Tensor grad;            // the `.grad` that shows it
    std::uint32_t version = 0;  // version of `grad` when it did
  };
  at::Tensor& grad_of(const at::Tensor& parameter);
  void add(const at::Tensor& parameter, const at::Tensor& gradient);
  Sum& sum_of(const at::Tensor& parameter);
  void show(Sum& sum, const at::Tensor& parameter);

  const CallersParameters& parameters_;
  std::map<const void*, Sum> sums_;         // by parameter; half precision only
  std::map<const void*, at::Tensor> held_;  // by parameter; until they are given out
  bool are_held_;
  bool are_asked_for_ = false, has_warned_ = false;
  bool has_step_ = false;
};

}  // namespace sluice
