// Passes the operators of a forward on this thread to an interceptor, which may replace them.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice {

class OperatorInterceptor {
 public:
  virtual ~OperatorInterceptor() = default;
  // Returns true if it ran the operator and replaced the arguments on the stack by results.
  // Operators that it calls are not intercepted.
  virtual bool run(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;
};

// This thread passes the operators listed below to `reader` while the scope exists.
class OperatorReaderScope {
 public:
  explicit OperatorReaderScope(OperatorInterceptor* reader);
  ~OperatorReaderScope();
  OperatorReaderScope(const OperatorReaderScope&) = delete;
  OperatorReaderScope& operator=(const OperatorReaderScope&) = delete;

 private:
  OperatorInterceptor* outer_;
};

// Passes an operator to this thread's reader, if there is one. at::linear, at::matmul, at::mm and
// at::addmm always call this.
bool try_reader(const c10::OperatorHandle& op, torch::jit::Stack& stack);
// True for an operator that is tagged as pointwise, draws nothing and returns one tensor. False for
// at::clone.
bool is_pointwise(const c10::OperatorHandle& op);
at::Tensor call_operator(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments);

// Also passes pointwise operators, embedding, layer_norm, rms_norm, scaled_dot_product_attention
// and dropouts to readers, on threads inside a KeyedRandomScope. Call this while modules are made.
void intercept_more_operators();

}  // namespace sluice
