#pragma once

#include <string_view>

namespace sluice::detail {

// Returns "add" for "aten.add_.Tensor" and "mul" for "_operator.mul".
std::string_view operator_name(std::string_view target);
bool is_in_place(std::string_view target);
// Whether the operator handles only numbers, sizes or assertions.
bool has_no_tensor_gradient(std::string_view target);

bool keeps_layout(std::string_view name);
// Whether CPU autocast runs the operator in the autocast dtype, or (below) in float32.
bool is_autocast_product(std::string_view name);
bool is_autocast_float(std::string_view name);

}  // namespace sluice::detail
