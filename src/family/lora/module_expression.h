// The regular expressions that PEFT matches names of modules with (re.fullmatch of Python).
//
// Owns: the known part of Python's syntax, and matching in time bounded by the sizes of both.
// Does not own: the modules that an expression chooses (adapter_config.h).
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

class ModuleExpression {
 public:
  // Characters, ".", "[..]", "\d \w \s" and their opposites, "\b", "^", "$", groups, "|", "* + ?
  // {m,n}" also lazy,
  // "(?=..)", "(?!..)". Throws std::invalid_argument saying what is not known, or too large.
  explicit ModuleExpression(std::string_view text);

  // True if the expression matches the whole name. Throws std::invalid_argument where that takes
  // too many steps.
  bool matches(std::string_view name) const;

  struct Node;

 private:
  std::shared_ptr<const Node> root_;
};

}  // namespace sluice::detail
