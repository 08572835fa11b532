#include "archive/graph_metadata.h"

#include <string_view>
#include <utility>

#include "base/text.h"

namespace sluice::detail {
namespace {

constexpr std::string_view kNoModules = "_empty_nn_module_stack_from_metadata_hook";
constexpr std::string_view kRootKey = "L__self__";

}  // namespace

std::vector<ModuleCall> module_calls(const std::string& stack) {
  std::vector<ModuleCall> calls;
  if (stack.starts_with(kNoModules)) return calls;
  for (const std::string& entry : split(stack, ';')) {
    const std::size_t first = entry.find(','), second = entry.find(',', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    ModuleCall call{.path = entry.substr(first + 1, second - first - 1),
                    .class_name = entry.substr(second + 1)};
    if (call.path.empty()) continue;  // the model itself
    std::string_view key = std::string_view(entry).substr(0, first);
    if (key.starts_with(kRootKey)) key.remove_prefix(kRootKey.size());
    const std::size_t again = key.rfind('@');
    call.key = call.path;
    if (again != std::string_view::npos) call.key += key.substr(again);
    calls.push_back(std::move(call));
  }
  return calls;
}

std::string source_of(const std::string& trace) {
  if (trace.find("File \"") == std::string::npos) return first_line(trace);
  std::string source;
  for (std::size_t at = trace.rfind("File \""); at != std::string::npos;
       at = at == 0 ? std::string::npos : trace.rfind("File \"", at - 1)) {
    const std::size_t begin = at + 6, end = trace.find('"', begin);
    constexpr std::string_view kLine = "\", line ";
    if (end == std::string::npos || trace.compare(end, kLine.size(), kLine) != 0) continue;
    const std::size_t number = end + kLine.size();
    const std::string file = trace.substr(begin, end - begin);
    std::string frame =
        file.substr(file.rfind('/') + 1) + ":" +
        trace.substr(number, trace.find_first_not_of("0123456789", number) - number);
    if (source.empty()) source = frame;
    if (file.find("/torch/") == std::string::npos && !file.starts_with("torch/")) return frame;
  }
  return source;
}

}  // namespace sluice::detail
