#include "layer/operator_reader.h"

#include <torch/library.h>

#include <array>
#include <iterator>
#include <mutex>

#include "layer/interception_key.h"

namespace sluice {
namespace {

constexpr std::array kAsking = {"aten::embedding",
                                "aten::layer_norm",
                                "aten::rms_norm",
                                "aten::scaled_dot_product_attention",
                                "aten::dropout",
                                "aten::dropout_",
                                "aten::alpha_dropout",
                                "aten::alpha_dropout_",
                                "aten::feature_dropout",
                                "aten::feature_dropout_",
                                "aten::feature_alpha_dropout",
                                "aten::feature_alpha_dropout_"};

thread_local OperatorInterceptor* current_reader = nullptr;

void ask(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (!try_reader(op, *stack)) op.redispatchBoxed(keys & kBelowInterception, stack);
}

void register_kernels() {
  static auto* const library =
      new torch::Library(torch::Library::IMPL, "aten", kInterceptionKey, __FILE__, __LINE__);
  const auto intercept = [](const char* name) {
    library->impl(name, torch::CppFunction::makeFromBoxedFunction<&ask>());
  };
  for (const char* name : kAsking) intercept(name);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op && name.getNamespace() == "aten" && is_pointwise(*op))
      intercept(c10::toString(name).c_str());
  }
}

}  // namespace

OperatorReaderScope::OperatorReaderScope(OperatorInterceptor* reader)
    : outer_(std::exchange(current_reader, reader)) {}

OperatorReaderScope::~OperatorReaderScope() { current_reader = outer_; }

bool is_pointwise(const c10::OperatorHandle& op) {
  const auto& results = op.schema().returns();
  return op.hasTag(at::Tag::pointwise) && !op.hasTag(at::Tag::nondeterministic_seeded) &&
         results.size() == 1 && results.front().type()->kind() == c10::TypeKind::TensorType &&
         op.schema().name() != "aten::clone";
}

at::Tensor call_operator(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments) {
  torch::jit::Stack stack(std::make_move_iterator(arguments.begin()),
                          std::make_move_iterator(arguments.end()));
  op.callBoxed(stack);
  return stack.back().toTensor();
}

bool try_reader(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (!current_reader) return false;
  OperatorInterceptor& reader = *current_reader;
  const OperatorReaderScope inner_calls(nullptr);
  return reader.run(op, stack);
}

void intercept_more_operators() {
  static std::once_flag registered;
  std::call_once(registered, register_kernels);
}

}  // namespace sluice
