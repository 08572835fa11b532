// Properties of ATen operators that follow from the name.
#pragma once

#include <string_view>

namespace sluice::detail {

// Maps "aten.add_.Tensor" to "add", and "_operator.mul" to "mul".
std::string_view operator_name(std::string_view target);
// Whether the operator writes its first argument.
bool is_in_place(std::string_view target);
// Whether it handles only numbers, sizes or assertions.
bool has_no_tensor_gradient(std::string_view target);

bool keeps_layout(std::string_view name);
// Whether CPU autocast runs the operator in its own type, or in float32.
bool is_autocast_product(std::string_view name);
bool is_autocast_float(std::string_view name);

}  // namespace sluice::detail
