// Names of ATen's operators: what is known of an operator by its name alone.
//
// Owns: these names. Does not own: rows (aten_rows.cpp), views (aten_views.cpp).
// Thread-safety: pure functions.
#pragma once

#include <string_view>

namespace sluice::detail {

// "add" of "aten.add_.Tensor"; "mul" of "_operator.mul"; "__and__" of "aten.__and__.Tensor".
std::string_view operator_name(std::string_view target);
// Written into its first argument: "aten.add_.Tensor".
bool is_in_place(std::string_view target);
// An operator on numbers, sizes, devices or what must hold: of no tensor that has a gradient.
bool is_of_numbers(std::string_view target);

// The result lies in memory as the operands do.
bool keeps_layout(std::string_view name);
// True for operators that autocast on the CPU runs in its type, or in float32.
bool is_autocast_product(std::string_view name);
bool is_autocast_float(std::string_view name);

}  // namespace sluice::detail
