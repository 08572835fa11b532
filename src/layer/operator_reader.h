// Sees operators of a forward before they run, and may run them itself. It belongs to the thread
// that sets it.
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
  // True if it ran the operator and replaced the arguments on the stack by results. Operators that
  // it calls meanwhile do not reach it.
  virtual bool run(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;
};

// While it lives, the operators below call the reader on this thread.
class OperatorReaderScope {
 public:
  explicit OperatorReaderScope(OperatorInterceptor* reader);
  ~OperatorReaderScope();
  OperatorReaderScope(const OperatorReaderScope&) = delete;
  OperatorReaderScope& operator=(const OperatorReaderScope&) = delete;

 private:
  OperatorInterceptor* outer_;
};

// Calls this thread's reader, if there is one. at::linear, at::matmul, at::mm and at::addmm always
// do so.
bool try_reader(const c10::OperatorHandle& op, torch::jit::Stack& stack);
// True for an operator that LibTorch tags as pointwise, that draws nothing and returns one tensor.
// False for at::clone, which computes nothing.
bool is_pointwise(const c10::OperatorHandle& op);
at::Tensor call_operator(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments);

// Lets more operators call the reader, on every thread inside a KeyedRandomScope: pointwise
// operators, embedding, layer_norm, rms_norm, scaled_dot_product_attention and dropouts. Call it
// while modules are made.
void intercept_more_operators();

}  // namespace sluice
