#include <algorithm>
#include <iterator>
#include <span>

#include "family/aten_table.h"

namespace sluice::detail {

const std::string_view kNumberFunctions[] = {
    "_operator.add",  "_operator.sub",  "_operator.mul",     "_operator.floordiv",
    "_operator.mod",  "_operator.pow",  "_operator.truediv", "_operator.neg",
    "_operator.pos",  "_operator.eq",   "_operator.ne",      "_operator.lt",
    "_operator.le",   "_operator.gt",   "_operator.ge",      "_operator.and_",
    "_operator.or_",  "_operator.xor",  "_operator.not_",    "_operator.trunc",
    "builtins.max",   "builtins.min",   "torch.sym_max",     "torch.sym_min",
    "torch.sym_not",  "torch.sym_ite",  "torch.sym_float",   "torch.sym_int",
    "torch.sym_sum",  "torch.sym_sqrt", "torch._sym_sqrt",   "math.sqrt",
    "math.floor",     "math.ceil",      "math.trunc",        "builtins.int",
    "builtins.float", "builtins.bool"};
const std::size_t kNumNumberFunctions = std::size(kNumberFunctions);

const AtenRow* find_aten_row(std::string_view target) {
  constexpr std::string_view kAten = "aten.";
  if (!target.starts_with(kAten)) return nullptr;
  target.remove_prefix(kAten.size());
  const std::span rows(kAtenRows, kNumAtenRows);
  const auto row = std::ranges::lower_bound(rows, target, {}, &AtenRow::name);
  return row == rows.end() || row->name != target ? nullptr : &*row;
}

bool contains_name(std::string_view names, std::string_view name) {
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = std::min(names.find(' ', begin), names.size());
    if (names.substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

bool is_number_function(std::string_view target) {
  return std::ranges::find(kNumberFunctions, target) != std::end(kNumberFunctions);
}

}  // namespace sluice::detail
