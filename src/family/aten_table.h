// The ATen operators that an exported graph may run. tools/make_aten_table.py generates
// aten_table.cpp from LibTorch's schemas.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::detail {

struct AtenRow {
  std::string_view name;  // with overload: "add_.Tensor", "relu.default"
  // Arguments that the operator writes, and whose storage results may share. Separated by blanks.
  std::string_view written, shared;
  bool draws = false;  // may draw random numbers
};

extern const AtenRow kAtenRows[];  // sorted by name
extern const std::size_t kNumAtenRows;

// Returns nullptr if no exported graph may run `target` ("aten.add_.Tensor").
const AtenRow* find_aten_row(std::string_view target);

// `names` are separated by blanks.
bool contains_name(std::string_view names, std::string_view name);

// Python functions on symbolic numbers: "_operator.mul", "torch.sym_max".
extern const std::string_view kNumberFunctions[];
extern const std::size_t kNumNumberFunctions;
bool is_number_function(std::string_view target);

}  // namespace sluice::detail
