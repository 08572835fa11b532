#pragma once

#include <ATen/record_function.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::test {

using OperatorCounts = std::map<std::string, int>;

inline OperatorCounts operators_of(const std::function<void()>& body) {
  static thread_local OperatorCounts* counts = nullptr;
  OperatorCounts counted;
  counts = &counted;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& call)
                                     -> std::unique_ptr<at::ObserverContext> {
        if (counts) ++(*counts)[call.name()];
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  body();
  at::removeCallback(handle);
  counts = nullptr;
  return counted;
}

inline int sum_of(const OperatorCounts& counts, const std::vector<std::string>& names) {
  int sum = 0;
  for (const std::string& name : names)
    if (const auto found = counts.find(name); found != counts.end()) sum += found->second;
  return sum;
}

}  // namespace sluice::test
