#include "layer/operator_reader.h"

#include <torch/library.h>

#include <array>
#include <mutex>

#include "layer/interception_key.h"

namespace sluice {
namespace {

constexpr std::array kAsking = {"aten::embedding",
                                "aten::layer_norm",
                                "aten::rms_norm",
                                "aten::mul.Tensor",
                                "aten::add.Tensor",
                                "aten::add_.Tensor",
                                "aten::silu",
                                "aten::gelu",
                                "aten::sigmoid",
                                "aten::tanh",
                                "aten::scaled_dot_product_attention",
                                "aten::dropout",
                                "aten::dropout_",
                                "aten::alpha_dropout",
                                "aten::alpha_dropout_",
                                "aten::feature_dropout",
                                "aten::feature_dropout_",
                                "aten::feature_alpha_dropout",
                                "aten::feature_alpha_dropout_"};

thread_local OperatorReader* current_reader = nullptr;

void ask(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (!run_by_reader(op, *stack)) op.redispatchBoxed(keys & kBelowInterception, stack);
}

void register_kernels() {
  // Never freed: other threads may be inside an operator while the process ends.
  static auto* const library =
      new torch::Library(torch::Library::IMPL, "aten", kInterceptionKey, __FILE__, __LINE__);
  for (const char* name : kAsking)
    library->impl(name, torch::CppFunction::makeFromBoxedFunction<&ask>());
}

}  // namespace

OperatorReaderScope::OperatorReaderScope(OperatorReader* reader)
    : outer_(std::exchange(current_reader, reader)) {}

OperatorReaderScope::~OperatorReaderScope() { current_reader = outer_; }

bool run_by_reader(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (!current_reader) return false;
  OperatorReader& reader = *current_reader;
  const OperatorReaderScope inner_calls(nullptr);
  return reader.run(op, stack);
}

void let_operators_ask() {
  static std::once_flag registered;
  std::call_once(registered, register_kernels);
}

}  // namespace sluice
