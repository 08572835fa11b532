#include <algorithm>

#include "base/format.h"
#include "family/aten_row.h"
#include "sluice/error.h"

namespace sluice::detail {

std::int64_t CallTensor::numel() const { return aten_rows::product_of(sizes); }
double CallTensor::bytes() const {
  return storage_bytes >= 0 ? aten_rows::as_double(storage_bytes)
                            : aten_rows::element(*this) * aten_rows::as_double(numel());
}
bool CallTensor::is_floating() const {
  return dtype.find("float") != std::string::npos || dtype.starts_with("complex");
}

const CallTensor* OperatorCall::tensor(std::string_view argument, std::size_t index) const {
  for (const auto& [name, each] : tensors)
    if (name == argument) return index < each.size() ? &each[index] : nullptr;
  return nullptr;
}

namespace aten_rows {
namespace {

const CallValue* value_of(const OperatorCall& call, std::string_view argument) {
  for (const auto& [name, value] : call.values)
    if (name == argument) return &value;
  return nullptr;
}

}  // namespace
}  // namespace aten_rows

std::int64_t OperatorCall::integer(std::string_view argument, std::int64_t otherwise) const {
  const CallValue* value = aten_rows::value_of(*this, argument);
  const auto* number = value ? std::get_if<std::int64_t>(value) : nullptr;
  return number ? *number : otherwise;
}

double OperatorCall::real(std::string_view argument, double otherwise) const {
  const CallValue* value = aten_rows::value_of(*this, argument);
  if (const auto* number = value ? std::get_if<double>(value) : nullptr) return *number;
  return value && std::holds_alternative<std::int64_t>(*value)
             ? aten_rows::as_double(std::get<std::int64_t>(*value))
             : otherwise;
}

bool OperatorCall::flag(std::string_view argument, bool otherwise) const {
  const CallValue* value = aten_rows::value_of(*this, argument);
  const auto* truth = value ? std::get_if<bool>(value) : nullptr;
  return truth ? *truth : otherwise;
}

std::string OperatorCall::text(std::string_view argument) const {
  const CallValue* value = aten_rows::value_of(*this, argument);
  const auto* text = value ? std::get_if<std::string>(value) : nullptr;
  return text ? *text : "";
}

std::vector<std::int64_t> OperatorCall::integers(std::string_view argument) const {
  const CallValue* value = aten_rows::value_of(*this, argument);
  if (const auto* list = value ? std::get_if<aten_rows::Sizes>(value) : nullptr) return *list;
  const auto* number = value ? std::get_if<std::int64_t>(value) : nullptr;
  return number ? aten_rows::Sizes{*number} : aten_rows::Sizes{};
}

void check_sizes(const OperatorCall& call) {
  const auto check = [&](const CallTensor& tensor) {
    double elements = 1;
    for (const std::int64_t size : tensor.sizes)
      elements = size < 0 ? aten_rows::kMostElements + 1
                          : elements * aten_rows::as_double(std::max<std::int64_t>(1, size));
    const bool strides_fit = tensor.strides.empty() || tensor.strides.size() == tensor.sizes.size();
    if (elements > aten_rows::kMostElements || !strides_fit)
      throw Error(
          ErrorKind::kInput,
          {.what = formatted("the sizes of '{}' in a call of '{}' are not sizes of a tensor",
                             tensor.name, call.target)});
    aten_rows::element(tensor);  // throws for an unknown dtype
  };
  for (const auto& [argument, tensors] : call.tensors)
    std::for_each(tensors.begin(), tensors.end(), check);
  std::for_each(call.results.begin(), call.results.end(), check);
}

}  // namespace sluice::detail
