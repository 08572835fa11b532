#include "job/slurm_lists.h"

#include <charconv>

#include "base/text.h"

namespace sluice {
namespace {

constexpr int kMaxRepeat = 1 << 20;

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || number < 1) return std::nullopt;
  return number;
}

}  // namespace

std::string first_slurm_host(std::string_view hosts) {
  std::string host;
  for (std::size_t at = 0; at < hosts.size() && hosts[at] != ','; ++at) {
    if (hosts[at] != '[') {
      host += hosts[at];
      continue;
    }
    // Leading zeros belong to the host name.
    const std::size_t close = hosts.find(']', at);
    if (close == std::string_view::npos) return {};
    const std::string_view inside = hosts.substr(at + 1, close - at - 1);
    host += inside.substr(0, inside.find_first_of(",-"));
    at = close;
  }
  return host;
}

std::optional<std::vector<int>> slurm_counts(std::string_view counts) {
  std::vector<int> list;
  for (const std::string& part : split(counts, ',')) {
    const std::size_t open = part.find("(x");
    std::optional<int> repeat = 1;
    if (open != std::string::npos) {
      if (part.back() != ')') return std::nullopt;
      repeat = number_of(std::string_view(part).substr(open + 2, part.size() - open - 3));
    }
    const std::optional<int> count = number_of(std::string_view(part).substr(0, open));
    if (!count || !repeat || *repeat > kMaxRepeat) return std::nullopt;
    list.insert(list.end(), static_cast<std::size_t>(*repeat), *count);
  }
  if (list.empty()) return std::nullopt;
  return list;
}

}  // namespace sluice
