#include "graph/graph_call.h"

#include <ATen/ScalarOps.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/List.h>
#include <c10/core/InferenceMode.h>

namespace sluice::detail {
namespace {

double as_double(const c10::IValue& number) {
  return number.isDouble() ? number.toDouble() : static_cast<double>(number.toInt());
}

c10::IValue list_of(const BoundArgument& argument, GraphFrame& frame) {
  const auto fill = [&](auto list, const auto& convert) {
    list.reserve(argument.elements.size());
    for (const BoundArgument& element : argument.elements)
      list.push_back(convert(element.take(frame)));
    return c10::IValue(std::move(list));
  };
  switch (argument.list_kind) {
    case BoundArgument::ListKind::kTensors:
      return fill(c10::List<at::Tensor>(),
                  [](c10::IValue value) { return std::move(value).toTensor(); });
    case BoundArgument::ListKind::kOptionalTensors:
      return fill(c10::List<std::optional<at::Tensor>>(), [](c10::IValue value) {
        return value.isNone() ? std::optional<at::Tensor>() : std::move(value).toTensor();
      });
    case BoundArgument::ListKind::kFloats:
      return fill(c10::List<double>(), as_double);
    case BoundArgument::ListKind::kBools:
      return fill(c10::List<bool>(), [](const c10::IValue& value) { return value.toBool(); });
    case BoundArgument::ListKind::kNumbers:
      return fill(c10::impl::GenericList(c10::NumberType::get()),
                  [](c10::IValue value) { return value; });
  }
  return {};
}

class Results {
 public:
  Results(const GraphCall& call, GraphFrame& frame) : call_(call), frame_(frame) {}

  void add(c10::IValue value) { set_result(call_, frame_, next_++, std::move(value)); }
  void add_list(c10::IValue value, std::size_t size) {
    const c10::List<at::Tensor> list = std::move(value).toTensorList();
    TORCH_CHECK(list.size() == size, "it returns ", list.size(), " tensors where the graph has ",
                size);
    for (std::size_t i = 0; i < size; ++i) add(list.get(i));
  }

 private:
  const GraphCall& call_;
  GraphFrame& frame_;
  std::size_t next_ = 0;
};

void put_arguments_on_stack(const GraphCall& call, GraphFrame& frame) {
  frame.stack.clear();
  for (const BoundArgument& argument : call.arguments) frame.stack.push_back(argument.take(frame));
}

void take_results_from_stack(const GraphCall& call, GraphFrame& frame) {
  Results results(call, frame);
  for (std::size_t i = 0; i < call.list_sizes.size(); ++i) {
    if (call.list_sizes[i] < 0) {
      results.add(std::move(frame.stack[i]));
    } else {
      results.add_list(std::move(frame.stack[i]), static_cast<std::size_t>(call.list_sizes[i]));
    }
  }
  frame.stack.clear();
}

}  // namespace

c10::IValue BoundArgument::take(GraphFrame& frame) const {
  switch (kind) {
    case Kind::kConstant:
      return constant;
    case Kind::kSlot:
      if (is_last_use) return std::move(frame.at(slot));
      return frame.at(slot);
    case Kind::kWrapped:
      return wrapped_number(frame.at(slot));
    case Kind::kFloat:
      return as_double(frame.at(slot));
    case Kind::kDevice:
      return frame.device;
    case Kind::kInts: {
      c10::List<std::int64_t> list;
      list.reserve(ints.size());
      for (const std::int64_t number : ints) list.push_back(number);
      for (const auto& [position, from] : ints_in_slots) list.set(position, frame.at(from).toInt());
      return list;
    }
    case Kind::kList:
      return list_of(*this, frame);
  }
  return {};
}

at::Tensor wrapped_number(const c10::IValue& number) {
  const c10::InferenceMode graphs_may_save_it(false);
  at::Tensor tensor = at::scalar_to_tensor(number.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

void run_boxed(const GraphCall& call, GraphFrame& frame) {
  put_arguments_on_stack(call, frame);
  call.op->callBoxed(frame.stack);
  take_results_from_stack(call, frame);
}

void run_math_attention(const GraphCall& call, GraphFrame& frame) {
  put_arguments_on_stack(call, frame);
  const c10::DeviceType device = frame.device.type();
  if (at::autocast::is_autocast_enabled(device)) {
    const at::ScalarType type = at::autocast::get_autocast_dtype(device);
    for (c10::IValue& argument : frame.stack)
      if (argument.isTensor())
        argument = at::autocast::cached_cast(type, argument.toTensor(), device);
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    call.op->callBoxed(frame.stack);
  } else {
    call.op->callBoxed(frame.stack);
  }
  take_results_from_stack(call, frame);
}

void run_added(const GraphCall& call, GraphFrame& frame) {
  std::vector<c10::IValue> arguments;
  arguments.reserve(call.arguments.size());
  for (const BoundArgument& argument : call.arguments) arguments.push_back(argument.take(frame));
  std::vector<at::Tensor> returned = call.added.call(arguments);
  TORCH_CHECK(returned.size() == call.results.size(), "it returns ", returned.size(),
              " tensors where the graph has ", call.results.size());
  for (std::size_t i = 0; i < returned.size(); ++i)
    set_result(call, frame, i, std::move(returned[i]));
}

void run_number(const GraphCall& call, GraphFrame& frame) {
  std::vector<c10::IValue> arguments;
  arguments.reserve(call.arguments.size());
  for (const BoundArgument& argument : call.arguments) arguments.push_back(argument.take(frame));
  set_result(call, frame, 0, call.number(arguments));
}

}  // namespace sluice::detail
