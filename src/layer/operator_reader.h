// One that looks at operators of a forward before they run, on its thread, and may run them itself.
// Thread-safety: a reader belongs to the thread that set it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice {

class OperatorReader {
 public:
  virtual ~OperatorReader() = default;
  // True: it has run, and the stack holds its results in place of its arguments. Operators that it
  // calls itself meanwhile do not come here.
  virtual bool run(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;
};

// While it lives, the reader is asked by the operators below, on this thread.
class OperatorReaderScope {
 public:
  explicit OperatorReaderScope(OperatorReader* reader);
  ~OperatorReaderScope();
  OperatorReaderScope(const OperatorReaderScope&) = delete;
  OperatorReaderScope& operator=(const OperatorReaderScope&) = delete;

 private:
  OperatorReader* outer_;
};

// Asks the reader of this thread, if there is one: at::linear, at::matmul, at::mm and at::addmm do
// always.
bool run_by_reader(const c10::OperatorHandle& op, torch::jit::Stack& stack);
// Whether LibTorch tags the operator as pointwise, it draws no random numbers, and it returns one
// tensor. at::clone, which computes nothing, does not count.
bool is_pointwise(const c10::OperatorHandle& op);
// Calls an operator that returns one tensor.
at::Tensor call_operator(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments);

// Makes further operators call the reader, on every thread inside a KeyedRandomScope: pointwise
// operators, at::embedding, at::layer_norm, at::rms_norm, at::scaled_dot_product_attention,
// at::dropout and its other kinds. Must be called while modules are made.
void let_operators_ask();

}  // namespace sluice
