#include "graph/direct_calls.h"

#include <ATen/core/IListRef.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/contiguous_ops.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/dropout_ops.h>
#include <ATen/ops/embedding_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/expand_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/layer_norm_ops.h>
#include <ATen/ops/linear_ops.h>
#include <ATen/ops/matmul_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/permute_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/reshape_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/scaled_dot_product_attention_ops.h>
#include <ATen/ops/select_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/slice_ops.h>
#include <ATen/ops/softmax_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/to_ops.h>
#include <ATen/ops/transpose_ops.h>
#include <ATen/ops/unsqueeze_ops.h>
#include <ATen/ops/view_ops.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <string_view>
#include <tuple>
#include <utility>

namespace sluice::detail {
namespace {

const c10::IValue& value_of(const BoundArgument& argument, GraphFrame& frame) {
  return argument.kind == BoundArgument::Kind::kConstant ? argument.constant
                                                         : frame.at(argument.slot);
}

// An argument in the operator's C++ type, with the call's temporaries.
template <typename T>
struct Typed;

template <>
struct Typed<const at::Tensor&> {
  at::Tensor made;
  const at::Tensor& get(const BoundArgument& argument, GraphFrame& frame) {
    if (argument.kind != BoundArgument::Kind::kWrapped) return value_of(argument, frame).toTensor();
    made = wrapped_number(value_of(argument, frame));
    return made;
  }
};

template <>
struct Typed<const std::optional<at::Tensor>&> {
  std::optional<at::Tensor> made;
  const std::optional<at::Tensor>& get(const BoundArgument& argument, GraphFrame& frame) {
    const c10::IValue& value = value_of(argument, frame);
    if (argument.kind == BoundArgument::Kind::kWrapped) {
      made = wrapped_number(value);
    } else if (value.isTensor()) {
      made = value.toTensor();
    }
    return made;
  }
};

template <>
struct Typed<const at::ITensorListRef&> {
  std::vector<at::Tensor> made;
  std::optional<at::ITensorListRef> list;
  const at::ITensorListRef& get(const BoundArgument& argument, GraphFrame& frame) {
    made.reserve(argument.elements.size());
    for (const BoundArgument& element : argument.elements) {
      made.push_back(element.kind == BoundArgument::Kind::kWrapped
                         ? wrapped_number(value_of(element, frame))
                         : value_of(element, frame).toTensor());
    }
    return list.emplace(made);
  }
};

template <>
struct Typed<const at::Scalar&> {
  at::Scalar made;
  const at::Scalar& get(const BoundArgument& argument, GraphFrame& frame) {
    made = value_of(argument, frame).toScalar();
    return made;
  }
};

template <>
struct Typed<at::IntArrayRef> {
  c10::SmallVector<std::int64_t, 8> made;
  at::IntArrayRef get(const BoundArgument& argument, GraphFrame& frame) {
    if (argument.ints_in_slots.empty()) return argument.ints;
    made.append(argument.ints.begin(), argument.ints.end());
    for (const auto& [position, slot] : argument.ints_in_slots)
      made[position] = frame.at(slot).toInt();
    return made;
  }
};

template <>
struct Typed<c10::SymIntArrayRef> {
  Typed<at::IntArrayRef> ints;
  c10::SymIntArrayRef get(const BoundArgument& argument, GraphFrame& frame) {
    return c10::fromIntArrayRefSlow(ints.get(argument, frame));
  }
};

template <>
struct Typed<at::OptionalIntArrayRef> {
  Typed<at::IntArrayRef> ints;
  at::OptionalIntArrayRef get(const BoundArgument& argument, GraphFrame& frame) {
    if (argument.kind == BoundArgument::Kind::kConstant && argument.constant.isNone())
      return std::nullopt;
    return ints.get(argument, frame);
  }
};

template <>
struct Typed<std::int64_t> {
  std::int64_t get(const BoundArgument& argument, GraphFrame& frame) {
    return value_of(argument, frame).toInt();
  }
};

template <>
struct Typed<c10::SymInt> {
  c10::SymInt get(const BoundArgument& argument, GraphFrame& frame) {
    return c10::SymInt(value_of(argument, frame).toInt());
  }
};

template <>
struct Typed<double> {
  double get(const BoundArgument& argument, GraphFrame& frame) {
    const c10::IValue& value = value_of(argument, frame);
    return value.isDouble() ? value.toDouble() : static_cast<double>(value.toInt());
  }
};

template <>
struct Typed<bool> {
  bool get(const BoundArgument& argument, GraphFrame& frame) {
    return value_of(argument, frame).toBool();
  }
};

template <>
struct Typed<at::ScalarType> {
  at::ScalarType get(const BoundArgument& argument, GraphFrame& frame) {
    return value_of(argument, frame).toScalarType();
  }
};

template <>
struct Typed<at::MemoryFormat> {
  at::MemoryFormat get(const BoundArgument& argument, GraphFrame& frame) {
    return value_of(argument, frame).toMemoryFormat();
  }
};

template <>
struct Typed<at::Layout> {
  at::Layout get(const BoundArgument& argument, GraphFrame& frame) {
    return value_of(argument, frame).toLayout();
  }
};

template <>
struct Typed<at::Device> {
  at::Device get(const BoundArgument& argument, GraphFrame& frame) {
    return argument.kind == BoundArgument::Kind::kDevice ? frame.device
                                                         : value_of(argument, frame).toDevice();
  }
};

template <>
struct Typed<c10::string_view> {
  c10::string_view get(const BoundArgument& argument, GraphFrame& frame) {
    return value_of(argument, frame).toStringRef();
  }
};

template <typename T>
struct Typed<std::optional<T>> {
  Typed<T> value;
  std::optional<T> get(const BoundArgument& argument, GraphFrame& frame) {
    if (argument.kind == BoundArgument::Kind::kConstant && argument.constant.isNone())
      return std::nullopt;
    return value.get(argument, frame);
  }
};

template <typename Op, typename Signature>
struct DirectCall;

template <typename Op, typename Result, typename... Arguments>
struct DirectCall<Op, Result(Arguments...)> {
  static void run(const GraphCall& call, GraphFrame& frame) {
    run(call, frame, std::index_sequence_for<Arguments...>());
  }

 private:
  template <std::size_t... i>
  static void run(const GraphCall& call, GraphFrame& frame, std::index_sequence<i...>) {
    std::tuple<Typed<Arguments>...> typed;
    set_result(call, frame, 0, Op::call(std::get<i>(typed).get(call.arguments[i], frame)...));
  }
};

struct Entry {
  std::string_view name, overload;
  GraphCall::Run run;
};

template <typename Op>
constexpr Entry entry() {
  return {Op::name, Op::overload_name, &DirectCall<Op, typename Op::schema>::run};
}

constexpr std::array kDirect{
    entry<at::_ops::add_Tensor>(),    entry<at::_ops::bmm>(),
    entry<at::_ops::cat>(),           entry<at::_ops::clone>(),
    entry<at::_ops::contiguous>(),    entry<at::_ops::cos>(),
    entry<at::_ops::div_Tensor>(),    entry<at::_ops::dropout>(),
    entry<at::_ops::embedding>(),     entry<at::_ops::exp>(),
    entry<at::_ops::expand>(),        entry<at::_ops::gelu>(),
    entry<at::_ops::layer_norm>(),    entry<at::_ops::linear>(),
    entry<at::_ops::matmul>(),        entry<at::_ops::mean_dim>(),
    entry<at::_ops::mul_Tensor>(),    entry<at::_ops::neg>(),
    entry<at::_ops::permute>(),       entry<at::_ops::pow_Tensor_Scalar>(),
    entry<at::_ops::relu>(),          entry<at::_ops::reshape>(),
    entry<at::_ops::rsqrt>(),         entry<at::_ops::scaled_dot_product_attention>(),
    entry<at::_ops::select_int>(),    entry<at::_ops::sigmoid>(),
    entry<at::_ops::silu>(),          entry<at::_ops::sin>(),
    entry<at::_ops::slice_Tensor>(),  entry<at::_ops::softmax_int>(),
    entry<at::_ops::sub_Tensor>(),    entry<at::_ops::tanh>(),
    entry<at::_ops::to_dtype>(),      entry<at::_ops::to_dtype_layout>(),
    entry<at::_ops::transpose_int>(), entry<at::_ops::unsqueeze>(),
    entry<at::_ops::view>(),
};

}  // namespace

GraphCall::Run direct_call(const c10::OperatorName& name) {
  for (const Entry& known : kDirect) {
    if (name.name == known.name && name.overload_name == known.overload) return known.run;
  }
  return nullptr;
}

}  // namespace sluice::detail
