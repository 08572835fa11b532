// Properties of ATen operators that follow from the name.
#pragma once

#include <string_view>

namespace sluice::detail {

// Returns "add" for "aten.add_.Tensor", "mul" for "_operator.mul", and "__and__" for
// "aten.__and__.Tensor".
std::string_view operator_name(std::string_view target);
// Whether the operator writes its first argument: "aten.add_.Tensor".
bool is_in_place(std::string_view target);
// Whether the operator handles numbers, sizes or assertions, but no tensor with a gradient.
bool is_of_numbers(std::string_view target);

// Whether the result has the layout of the operands.
bool keeps_layout(std::string_view name);
// Operators that CPU autocast runs in its own type, or in float32.
bool is_autocast_product(std::string_view name);
bool is_autocast_float(std::string_view name);

}  // namespace sluice::detail
