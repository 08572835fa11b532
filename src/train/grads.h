// `.grad` of the parameters of this rank: all steps since it was last cleared.
//
// Owns: the sums in float32 behind the `.grad` of half-precision parameters. Does not own: the
// gradients of a step (Stage), ties (tied_sums.h).
// Thread-safety: one rank's thread.
#pragma once

#include <map>
#include <vector>

#include "train/parameter_list.h"

namespace sluice {

class Grads {
 public:
  // parameters must outlive it.
  explicit Grads(const std::vector<SharedParameter>& parameters) : parameters_(parameters) {}

  // Adds the gradients of a step. A sum goes on as long as nobody else has written to its `.grad`,
  // else from what is there.
  void add_step();
  void scale(double factor);

 private:
  struct Sum {
    at::Tensor value;           // float32
    at::Tensor grad;            // that shows it
    std::uint32_t version = 0;  // of `grad` when it did
  };
  void add(const at::Tensor& parameter, const at::Tensor& gradient);
  Sum& sum_of(const at::Tensor& parameter);
  static void show(Sum& sum, const at::Tensor& parameter);

  const std::vector<SharedParameter>& parameters_;
  std::map<const void*, Sum> sums_;  // by parameter; half precision only
};

}  // namespace sluice
