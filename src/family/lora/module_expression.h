// Regular expressions of PEFT, matched like Python's re.fullmatch in bounded time.
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
  // greedy and lazy "* + ? {m,n}", "(?=..)" and "(?!..)". Throws std::invalid_argument for anything
  // else.
  explicit ModuleExpression(std::string_view text);

  // Throws std::invalid_argument if matching takes too many steps.
  bool matches(std::string_view name) const;

  struct Node;

 private:
  std::shared_ptr<const Node> root_;
};

}  // namespace sluice::detail
