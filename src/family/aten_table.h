// The operators of ATen that an exported graph may run, and what each does to its arguments.
//
// Owns: the table, which tools/make_aten_table.py writes from LibTorch's schemas into
// aten_table.cpp. Does not own: refusing a graph (archive/allowed_nodes.h), costs
// (aten_operators.h).
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::detail {

struct AtenRow {
  std::string_view name;  // with its overload: "add_.Tensor", "relu.default"
  // Names of arguments, separated by blanks: those that the operator writes, and those whose
  // storage its results may share.
  std::string_view written, shared;
  bool draws = false;  // may draw random numbers
};

extern const AtenRow kAtenRows[];  // by name, in ascending order
extern const std::size_t kNumAtenRows;

// target: "aten.add_.Tensor". nullptr: no exported graph may run the operator.
const AtenRow* find_aten_row(std::string_view target);

// Whether `names`, separated by blanks, contains the name.
bool contains_name(std::string_view names, std::string_view name);

// "_operator.mul", "torch.sym_max": arithmetic of Python with symbolic numbers.
extern const std::string_view kNumberFunctions[];
extern const std::size_t kNumNumberFunctions;
bool is_number_function(std::string_view target);

}  // namespace sluice::detail
