// Regular expressions of PEFT for module names, matched like Python's re.fullmatch. Matching time
// is bounded.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

class ModuleExpression {
 public:
  // Supports characters, ".", "[..]", "\d \w \s" and their opposites, "\b", "^", "$", groups, "|",
  // greedy and lazy "* + ? {m,n}", "(?=..)" and "(?!..)". Throws std::invalid_argument for other
  // syntax or a too large expression.
  explicit ModuleExpression(std::string_view text);

  // Whether the whole name matches. Throws std::invalid_argument if that takes too many steps.
  bool matches(std::string_view name) const;

  struct Node;

 private:
  std::shared_ptr<const Node> root_;
};

}  // namespace sluice::detail
