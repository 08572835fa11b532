// Counts the floating-point operations of matrix products while layers run.
//
// Owns: an observer of LibTorch's operators on one thread. Does not own: the use of the counts.
// A multiply-add is two operations. Attention counts every pair of tokens, masked or not. An
// operator inside a counted one counts nothing. The backward is not watched but derived: one
// product for the gradient of each operand that needs one (attention: as many again for the
// gradient of its probabilities), the weight's where the operand is a parameter or a view of one.
// Thread-safety: one thread, one counter at a time.
#pragma once

#include <ATen/record_function.h>

#include <map>
#include <vector>

#include "layer/split_backward.h"
#include "sluice/layer.h"

namespace sluice {

class FlopCounter {
 public:
  struct Counts {
    double forward = 0, input = 0, weight = 0;
  };

  explicit FlopCounter(const std::vector<ParameterInfo>& parameters);
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  const Counts& counts() const { return counts_; }

 private:
  struct Observed;
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call);
  static void end(const at::RecordFunction& call, at::ObserverContext* context);

  void add_product(const at::Tensor& a, const at::Tensor& b, double flops);
  void add_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
  bool is_weight(const at::Tensor& operand) const;

  std::map<const torch::autograd::Node*, std::int64_t> weights_;  // accumulator -> elements
  std::vector<NodePtr> accumulators_;                             // alive for weights_
  int depth_ = 0;  // depth of nested counted operators
  Counts counts_;
  at::CallbackHandle handle_;
};

}  // namespace sluice
