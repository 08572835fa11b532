// Properties of ATen operators that follow from their names.
#pragma once

#include <string_view>

namespace sluice::detail {

// Returns the name without namespace and overload: "add" for "aten.add_.Tensor", "mul" for
// "_operator.mul".
std::string_view operator_name(std::string_view target);
// Whether the operator writes to its first argument ("add_").
bool is_in_place(std::string_view target);
// Whether the operator handles only numbers, sizes or assertions, so no gradient flows through it.
bool has_no_tensor_gradient(std::string_view target);

bool keeps_layout(std::string_view name);
// Whether CPU autocast runs the operator in the autocast dtype (product) or in float32 (float).
bool is_autocast_product(std::string_view name);
bool is_autocast_float(std::string_view name);

}  // namespace sluice::detail
