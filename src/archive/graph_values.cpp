#include "archive/graph_values.h"

#include <utility>

#include "archive/serialized_words.h"
#include "base/format.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr std::size_t kMaxRank = 64;

GraphArgument list_of(const JsonField& field, auto&& each) {
  GraphArgument made{.kind = GraphArgument::Kind::kList};
  for (const Json& item : field.list()) made.list.push_back(each(item));
  return made;
}

}  // namespace

SizeExpression GraphValues::expression(const std::string& text) {
  const auto known = expressions_.find(text);
  if (known != expressions_.end()) return known->second;
  try {
    return expressions_.emplace(text, SizeExpression::parse(text)).first->second;
  } catch (const Error& error) {
    throw error.at(place_);
  }
}

SizeExpression GraphValues::symbolic(const Json& json) {
  const Json::Member& member = field(json).only_member();
  if (member.key == "as_int") return field(member.value, member.key).integer();
  if (member.key == "as_bool") return field(member.value, member.key).boolean() ? 1 : 0;
  if (member.key != "as_expr") refuse(formatted("a size is given as '{}'", member.key));
  return expression(field(member.value, member.key).at("expr_str").text());
}

void GraphValues::describe_tensor(const Json& meta, GraphValue& value) {
  const JsonField tensor = field(meta);
  const std::int64_t dtype = tensor.at("dtype").integer();
  value.dtype = serialized_dtype(dtype);
  if (value.dtype.empty())
    refuse(formatted("the tensor '{}' has the unknown dtype {}", value.name, dtype));
  if (const std::int64_t layout = tensor.at("layout").integer();
      serialized_layout(layout) != "strided") {
    refuse_archive(place_,
                   formatted("the tensor '{}' has the layout '{}', not strided", value.name,
                             serialized_layout(layout)),
                   "export a model of dense tensors");
  }
  const Json::List& sizes = tensor.at("sizes").list();
  if (sizes.size() > kMaxRank)
    refuse(formatted("the tensor '{}' has {} dimensions", value.name, sizes.size()));
  for (const Json& size : sizes) {
    value.sizes.push_back(symbolic(size));
    if (value.sizes.back().is_number() && value.sizes.back().number() < 0)
      refuse(
          formatted("the tensor '{}' has a size of {}", value.name, value.sizes.back().number()));
  }
  value.strides = strides_of(meta);
}

// Ignores unreadable strides, because few operators need them.
std::vector<SizeExpression> GraphValues::strides_of(const Json& meta) {
  std::vector<SizeExpression> strides;
  try {
    for (const Json& stride : field(meta).at("strides").list()) strides.push_back(symbolic(stride));
    return strides;
  } catch (const Error&) {
    return {};
  }
}

int GraphValues::define(const std::string& name, GraphValue::Kind kind, GraphScope& scope,
                        bool is_output) {
  GraphValue value{.name = scope.prefix + name, .kind = kind};
  if (kind == GraphValue::Kind::kTensor) {
    if (const Json* meta = scope.tensors.find(name))
      describe_tensor(*meta, value);
    else if (!is_output)
      refuse(formatted("the tensor '{}' is not described", name));
  } else {
    const Json& table = kind == GraphValue::Kind::kInt    ? scope.ints
                        : kind == GraphValue::Kind::kBool ? scope.bools
                                                          : scope.floats;
    const Json* number = table.find(name);
    if (number && (!number->is_object() || number->size() != 1))
      refuse(formatted("the number '{}' is not described", name));
    if (number && number->members()[0].key != "as_float") value.number = symbolic(*number);
  }
  const int index = static_cast<int>(values_.size());
  bind(name, {.kind = GraphArgument::Kind::kValue, .value = index}, scope);
  values_.push_back(std::move(value));
  return index;
}

void GraphValues::bind(const std::string& name, GraphArgument argument, GraphScope& scope) {
  if (!scope.named.emplace(name, std::move(argument)).second)
    refuse(formatted("the value '{}' is written twice", name));
}

const GraphArgument& GraphValues::lookup(const std::string& name, const GraphScope& scope) const {
  const auto found = scope.named.find(name);
  if (found == scope.named.end())
    refuse(formatted("the value '{}' is read before it is written, or never written", name));
  const GraphArgument& argument = found->second;
  if (argument.kind == GraphArgument::Kind::kValue) {
    const GraphValue& value = values_[static_cast<std::size_t>(argument.value)];
    if (value.kind == GraphValue::Kind::kTensor && value.dtype.empty())
      refuse(formatted("the tensor '{}' is read, but not described", name));
  }
  return argument;
}

GraphArgument GraphValues::integer(const Json& json) const {
  return {.kind = GraphArgument::Kind::kInt, .integer = field(json).integer()};
}

GraphArgument GraphValues::real(const Json& json) const {
  return {.kind = GraphArgument::Kind::kFloat, .real = field(json).number()};
}

GraphArgument GraphValues::boolean(const Json& json) const {
  return {.kind = GraphArgument::Kind::kBool, .integer = field(json).boolean() ? 1 : 0};
}

GraphArgument GraphValues::string(const Json& json) const {
  return {.kind = GraphArgument::Kind::kString, .text = field(json).text()};
}

GraphArgument GraphValues::tensor(const Json& json, const GraphScope& scope) const {
  return lookup(field(json).at("name").text(), scope);
}

GraphArgument GraphValues::optional_tensor(const Json& json, const GraphScope& scope) const {
  const Json::Member& member = field(json).only_member();
  if (member.key == "as_none") return {};
  if (member.key != "as_tensor") refuse(formatted("a tensor is given as '{}'", member.key));
  return tensor(member.value, scope);
}

GraphArgument GraphValues::symbol(const Json& json, const GraphScope& scope) const {
  const Json::Member& member = field(json).only_member();
  if (member.key == "as_name") return lookup(field(member.value, member.key).text(), scope);
  if (member.key == "as_int") return integer(member.value);
  if (member.key == "as_float") return real(member.value);
  if (member.key == "as_bool") return boolean(member.value);
  refuse(formatted("a number is given as '{}'", member.key));
}

GraphArgument GraphValues::word(GraphArgument::Kind kind, const Json& json,
                                std::string_view (*table)(std::int64_t)) const {
  const std::int64_t number = field(json).integer();
  const std::string_view text = table(number);
  if (text.empty()) refuse(formatted("an argument has the unknown number {}", number));
  return {.kind = kind, .text = std::string(text)};
}

GraphArgument GraphValues::device(const Json& json) const {
  std::string text = field(json).at("type").text();
  if (const Json* index = field(json).find("index"))
    text += formatted(":{}", field(*index, "index").integer());
  return {.kind = GraphArgument::Kind::kDevice, .text = std::move(text)};
}

GraphArgument GraphValues::argument(const Json& json, const GraphScope& scope) {
  using Kind = GraphArgument::Kind;
  const auto& [key, value] = field(json).only_member();
  if (key == "as_none") return {};
  if (key == "as_tensor") return tensor(value, scope);
  if (key == "as_optional_tensor") return optional_tensor(value, scope);
  if (key == "as_int") return integer(value);
  if (key == "as_float") return real(value);
  if (key == "as_bool") return boolean(value);
  if (key == "as_string") return string(value);
  if (key == "as_complex") {
    return {.kind = Kind::kComplex,
            .real = field(value).at("real").number(),
            .imaginary = field(value).at("imag").number()};
  }
  if (key == "as_sym_int" || key == "as_sym_float" || key == "as_sym_bool")
    return symbol(value, scope);
  if (key == "as_scalar_type") return word(Kind::kDtype, value, serialized_dtype);
  if (key == "as_layout") return word(Kind::kLayout, value, serialized_layout);
  if (key == "as_memory_format") return word(Kind::kMemoryFormat, value, serialized_memory_format);
  if (key == "as_device") return device(value);
  const auto of_tensor = [&](const Json& item) { return tensor(item, scope); };
  const auto of_integer = [&](const Json& item) { return integer(item); };
  const auto of_real = [&](const Json& item) { return real(item); };
  if (key == "as_tensors") return list_of(field(value), of_tensor);
  if (key == "as_ints") return list_of(field(value), of_integer);
  if (key == "as_floats") return list_of(field(value), of_real);
  if (key == "as_bools")
    return list_of(field(value), [&](const Json& item) { return boolean(item); });
  if (key == "as_strings")
    return list_of(field(value), [&](const Json& item) { return string(item); });
  if (key == "as_optional_tensors")
    return list_of(field(value), [&](const Json& item) { return optional_tensor(item, scope); });
  if (key == "as_sym_ints" || key == "as_sym_floats" || key == "as_sym_bools")
    return list_of(field(value), [&](const Json& item) { return symbol(item, scope); });
  if (key == "as_nested_tensors")
    return list_of(field(value), [&](const Json& item) { return list_of(field(item), of_tensor); });
  if (key == "as_int_lists")
    return list_of(field(value),
                   [&](const Json& item) { return list_of(field(item), of_integer); });
  if (key == "as_float_lists")
    return list_of(field(value), [&](const Json& item) { return list_of(field(item), of_real); });
  refuse_archive(place_, formatted("an argument of the kind '{}' is not supported", key),
                 "export a model without such operators");
}

const std::string* GraphValues::name_of(const Json& json) const {
  const auto& [key, value] = field(json).only_member();
  if (key == "as_tensor") return &field(value, key).at("name").text();
  if (key == "as_sym_int" || key == "as_sym_float" || key == "as_sym_bool") {
    const Json* name = field(value, key).find("as_name");
    return name ? &field(*name, "as_name").text() : nullptr;
  }
  if (key == "as_custom_obj" || key == "as_graph")
    refuse_archive(place_, formatted("a value of the kind '{}' is not supported", key),
                   "export a model of tensors alone");
  return nullptr;
}

GraphValue::Kind GraphValues::kind_of(const Json& json) const {
  const std::string& key = field(json).only_member().key;
  return key == "as_tensor"      ? GraphValue::Kind::kTensor
         : key == "as_sym_int"   ? GraphValue::Kind::kInt
         : key == "as_sym_float" ? GraphValue::Kind::kFloat
                                 : GraphValue::Kind::kBool;
}

}  // namespace sluice::detail
