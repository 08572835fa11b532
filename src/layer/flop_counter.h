// Counts the floating-point operations of matrix products on this thread.
//
// A multiply-add counts as two operations. Attention counts all pairs of tokens, even masked ones.
// Operators inside a counted operator do not count. A backward counts one product per operand that
// needs a gradient: as weight gradient if the operand is a parameter or its view, otherwise as
// input gradient. Attention counts one more, for the gradient of the probabilities. Only one
// counter may be active.
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

  // AccumulateGrad node of a weight -> number of elements
  std::map<const torch::autograd::Node*, std::int64_t> weights_;
  std::vector<NodePtr> accumulators_;
  int depth_ = 0;
  Counts counts_;
  at::CallbackHandle handle_;
};

}  // namespace sluice
