#include "graph/bind_arguments.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "graph/dtypes.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using Kind = GraphArgument::Kind;
using Bound = BoundArgument;
using ValueKind = GraphValue::Kind;

Bound constant(c10::IValue value) {
  Bound bound;
  bound.constant = std::move(value);
  return bound;
}

Bound in_slot(int slot, Bound::Kind kind = Bound::Kind::kSlot) {
  Bound bound;
  bound.kind = kind;
  bound.slot = slot;
  return bound;
}

Bound of_kind(Bound::Kind kind) {
  Bound bound;
  bound.kind = kind;
  return bound;
}

std::optional<c10::IValue> written_number(const GraphArgument& argument) {
  switch (argument.kind) {
    case Kind::kInt:
      return c10::IValue(argument.integer);
    case Kind::kFloat:
      return c10::IValue(argument.real);
    case Kind::kBool:
      return c10::IValue(argument.integer != 0);
    case Kind::kComplex:
      return c10::IValue(c10::complex<double>(argument.real, argument.imaginary));
    default:
      return std::nullopt;
  }
}

class Binding {
 public:
  explicit Binding(const ValueSlots& values) : values_(values) {}

  std::optional<Bound> bind(const GraphArgument& argument, const c10::TypePtr& type,
                            std::optional<std::int32_t> length) const {
    if (const auto optional = type->cast<c10::OptionalType>()) {
      if (argument.kind == Kind::kNone) return constant(c10::IValue());
      return bind(argument, optional->getElementType(), length);
    }
    if (const auto list = type->cast<c10::ListType>())
      return bind_list(argument, list->getElementType(), length);
    if (argument.kind == Kind::kValue) return bind_value(argument, type->kind());
    return bind_constant(argument, type->kind());
  }

  std::optional<Bound> bind_as_written(const GraphArgument& argument) const {
    if (argument.kind == Kind::kNone) return constant(c10::IValue());
    if (argument.kind == Kind::kValue) {
      if (const auto number = constant_number(argument)) return constant(*number);
      return in_slot(slot_of(argument));
    }
    if (argument.kind != Kind::kList) return bind_constant(argument, natural_type(argument.kind));
    for (const c10::TypePtr& element :
         {c10::TypePtr(c10::IntType::get()), c10::TypePtr(c10::TensorType::get()),
          c10::TypePtr(c10::OptionalType::create(c10::TensorType::get())),
          c10::TypePtr(c10::BoolType::get()), c10::TypePtr(c10::FloatType::get())}) {
      if (auto bound = bind_list(argument, element, std::nullopt)) return bound;
    }
    return std::nullopt;
  }

 private:
  const GraphValue& value_of(const GraphArgument& argument) const {
    return values_.module.values.at(static_cast<std::size_t>(argument.value));
  }

  std::optional<c10::IValue> constant_number(const GraphArgument& argument) const {
    const GraphValue& value = value_of(argument);
    if (value.kind != ValueKind::kInt || !value.number || !value.number->is_number())
      return std::nullopt;
    return c10::IValue(value.number->number());
  }

  int slot_of(const GraphArgument& argument) const {
    if (const auto slot = values_.slots.find(argument.value); slot != values_.slots.end())
      return slot->second;
    throw Error(ErrorKind::kInternal,
                {.what = "value '" + value_of(argument).name +
                         "' of an exported graph is read, but never computed"});
  }

  std::optional<Bound> bind_value(const GraphArgument& argument, c10::TypeKind type) const {
    if (const auto number = constant_number(argument)) {
      GraphArgument written;
      written.kind = Kind::kInt;
      written.integer = number->toInt();
      return bind_constant(written, type);
    }
    const ValueKind kind = value_of(argument).kind;
    const bool is_tensor = kind == ValueKind::kTensor;
    switch (type) {
      case c10::TypeKind::TensorType:
        return in_slot(slot_of(argument), is_tensor ? Bound::Kind::kSlot : Bound::Kind::kWrapped);
      case c10::TypeKind::NumberType:
        if (is_tensor) return std::nullopt;
        return in_slot(slot_of(argument));
      case c10::TypeKind::FloatType:
      case c10::TypeKind::SymFloatType:
        if (is_tensor || kind == ValueKind::kBool) return std::nullopt;
        return in_slot(slot_of(argument), Bound::Kind::kFloat);
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType:
        if (kind != ValueKind::kInt) return std::nullopt;
        return in_slot(slot_of(argument));
      case c10::TypeKind::BoolType:
      case c10::TypeKind::SymBoolType:
        if (kind != ValueKind::kBool) return std::nullopt;
        return in_slot(slot_of(argument));
      case c10::TypeKind::AnyType:
        return in_slot(slot_of(argument));
      default:
        return std::nullopt;
    }
  }

  static std::optional<Bound> bind_constant(const GraphArgument& argument, c10::TypeKind type) {
    const std::optional<c10::IValue> number = written_number(argument);
    switch (type) {
      case c10::TypeKind::TensorType:
        if (argument.kind == Kind::kNone) return constant(at::Tensor());
        if (number) return constant(wrapped_number(*number));
        return std::nullopt;
      case c10::TypeKind::NumberType:
        if (number) return constant(*number);
        return std::nullopt;
      case c10::TypeKind::FloatType:
      case c10::TypeKind::SymFloatType:
        if (argument.kind == Kind::kInt) return constant(static_cast<double>(argument.integer));
        if (argument.kind == Kind::kFloat) return constant(*number);
        return std::nullopt;
      case c10::TypeKind::ComplexType:
        if (argument.kind == Kind::kComplex) return constant(*number);
        return std::nullopt;
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType:
        if (argument.kind == Kind::kInt) return constant(*number);
        if (argument.kind == Kind::kBool) return constant(argument.integer);
        return bind_word(argument);
      case c10::TypeKind::BoolType:
      case c10::TypeKind::SymBoolType:
        if (argument.kind == Kind::kBool) return constant(*number);
        return std::nullopt;
      case c10::TypeKind::StringType:
        if (argument.kind == Kind::kString) return constant(argument.text);
        return std::nullopt;
      case c10::TypeKind::DeviceObjType:
        if (argument.kind == Kind::kDevice || argument.kind == Kind::kString)
          return of_kind(Bound::Kind::kDevice);
        return std::nullopt;
      case c10::TypeKind::ScalarTypeType:
      case c10::TypeKind::LayoutType:
      case c10::TypeKind::MemoryFormatType:
        return bind_word(argument);
      case c10::TypeKind::AnyType:
        if (number) return constant(*number);
        if (argument.kind == Kind::kString) return constant(argument.text);
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  // LibTorch's stack holds a dtype, layout or memory format as an integer.
  static std::optional<Bound> bind_word(const GraphArgument& argument) {
    const auto as_integer = [](const auto& found) -> std::optional<Bound> {
      if (!found) return std::nullopt;
      return constant(static_cast<std::int64_t>(*found));
    };
    if (argument.kind == Kind::kDtype) return as_integer(scalar_type(argument.text));
    if (argument.kind == Kind::kLayout) return as_integer(layout(argument.text));
    if (argument.kind == Kind::kMemoryFormat) return as_integer(memory_format(argument.text));
    return std::nullopt;
  }

  static c10::TypeKind natural_type(Kind kind) {
    switch (kind) {
      case Kind::kDtype:
      case Kind::kLayout:
      case Kind::kMemoryFormat:
        return c10::TypeKind::IntType;
      case Kind::kDevice:
        return c10::TypeKind::DeviceObjType;
      default:
        return c10::TypeKind::AnyType;
    }
  }

  std::optional<Bound> bind_list(const GraphArgument& argument, const c10::TypePtr& element,
                                 std::optional<std::int32_t> length) const {
    std::vector<GraphArgument> items = argument.list;
    if (argument.kind != Kind::kList) {
      if (!length || *length < 1) return std::nullopt;
      items.assign(static_cast<std::size_t>(*length), argument);
    }
    const c10::TypeKind type = element->kind();
    std::vector<Bound> bound;
    for (const GraphArgument& item : items) {
      auto each = bind(item, element, std::nullopt);
      if (!each) return std::nullopt;
      bound.push_back(std::move(*each));
    }
    if (type == c10::TypeKind::IntType || type == c10::TypeKind::SymIntType)
      return list_of_ints(bound);
    Bound list = of_kind(Bound::Kind::kList);
    if (type == c10::TypeKind::TensorType) {
      list.list_kind = Bound::ListKind::kTensors;
    } else if (type == c10::TypeKind::OptionalType &&
               element->castRaw<c10::OptionalType>()->getElementType()->kind() ==
                   c10::TypeKind::TensorType) {
      list.list_kind = Bound::ListKind::kOptionalTensors;
    } else if (type == c10::TypeKind::FloatType) {
      list.list_kind = Bound::ListKind::kFloats;
    } else if (type == c10::TypeKind::BoolType) {
      list.list_kind = Bound::ListKind::kBools;
    } else if (type == c10::TypeKind::NumberType) {
      list.list_kind = Bound::ListKind::kNumbers;
    } else {
      return std::nullopt;
    }
    list.elements = std::move(bound);
    return list;
  }

  static Bound list_of_ints(const std::vector<Bound>& items) {
    Bound list = of_kind(Bound::Kind::kInts);
    for (const Bound& item : items) {
      const bool is_constant = item.kind == Bound::Kind::kConstant;
      if (!is_constant) list.ints_in_slots.emplace_back(list.ints.size(), item.slot);
      list.ints.push_back(is_constant ? item.constant.toInt() : 0);
    }
    if (list.ints_in_slots.empty()) {
      list.kind = Bound::Kind::kConstant;
      list.constant = c10::IValue(list.ints);
    }
    return list;
  }

  const ValueSlots& values_;
};

std::string kind_text(const GraphArgument& argument, const GraphModule& module) {
  switch (argument.kind) {
    case Kind::kNone:
      return "none";
    case Kind::kValue:
      return module.values.at(static_cast<std::size_t>(argument.value)).kind == ValueKind::kTensor
                 ? "a tensor"
                 : "a symbolic number";
    case Kind::kInt:
      return std::to_string(argument.integer);
    case Kind::kFloat:
      return "a float";
    case Kind::kComplex:
      return "a complex number";
    case Kind::kBool:
      return argument.integer ? "true" : "false";
    case Kind::kList:
      return formatted("a list of {} items", argument.list.size());
    default:
      return "'" + argument.text + "'";
  }
}

[[noreturn]] void throw_unfit(const GraphCall& call, const std::string& what) {
  throw Error(ErrorKind::kInput,
              {.what = what,
               .where = call.place,
               .remedy = "export the model again with the torch version of this LibTorch"});
}

}  // namespace

void bind_arguments(const GraphNode& node, const ValueSlots& values,
                    const c10::FunctionSchema& schema, GraphCall& call) {
  const Binding binding(values);
  std::size_t num_found = 0;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& wanted = schema.arguments()[i];
    const GraphArgument* written = nullptr;
    for (std::size_t k = 0; k < node.arguments.size() && !written; ++k) {
      const auto& [name, argument] = node.arguments[k];
      if (name == wanted.name() || (name.empty() && k == i)) written = &argument;
    }
    if (!written) {
      if (!wanted.default_value()) {
        throw_unfit(call, formatted("'{}' lacks the argument '{}' of the operator", node.target,
                                    wanted.name()));
      }
      BoundArgument bound = constant(*wanted.default_value());
      if (bound.constant.isIntList()) bound.ints = bound.constant.toIntVector();
      call.arguments.push_back(std::move(bound));
      continue;
    }
    ++num_found;
    auto bound = binding.bind(*written, wanted.real_type(), wanted.N());
    if (!bound) {
      throw_unfit(call, formatted("argument '{}' of '{}' is {}, but the operator takes {}",
                                  wanted.name(), node.target, kind_text(*written, values.module),
                                  wanted.real_type()->str()));
    }
    call.arguments.push_back(std::move(*bound));
  }
  if (num_found == node.arguments.size()) return;
  for (const auto& [name, argument] : node.arguments) {
    if (!name.empty() && !schema.argumentIndexWithName(name)) {
      throw_unfit(call, formatted("'{}' has an argument '{}' that the operator does not have",
                                  node.target, name));
    }
  }
  throw_unfit(call, formatted("'{}' has {} arguments, but the operator takes {}", node.target,
                              node.arguments.size(), schema.arguments().size()));
}

void bind_as_written(const GraphNode& node, const ValueSlots& values, GraphCall& call) {
  const Binding binding(values);
  for (const auto& [name, argument] : node.arguments) {
    auto bound = binding.bind_as_written(argument);
    if (!bound) {
      throw Error(ErrorKind::kInput,
                  {.what = formatted("argument '{}' of '{}' is a list of different kinds", name,
                                     node.target),
                   .where = call.place,
                   .remedy = "give the operator lists of tensors, of numbers or of truth values"});
    }
    call.arguments.push_back(std::move(*bound));
  }
}

}  // namespace sluice::detail
