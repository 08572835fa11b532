#include "data/token_stream.h"

#include <algorithm>

namespace sluice::data {

std::size_t Starts::holder(std::uint64_t position) const {
  return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), position) -
                                  starts_.begin()) -
         1;
}

std::vector<std::uint64_t> Starts::starts_in(std::uint64_t first, std::size_t count) const {
  std::vector<std::uint64_t> found;
  const auto end = std::lower_bound(starts_.begin(), starts_.end(), first + count);
  for (auto start = std::lower_bound(starts_.begin(), end, first); start != end; ++start) {
    if (found.empty() || found.back() != *start) found.push_back(*start);
  }
  return found;
}

}  // namespace sluice::data
