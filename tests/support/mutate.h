#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace sluice::test {

// Makes one to four edits: flips, drops, doubles or splices bytes, or sets extreme numbers.
inline std::string mutate(std::string bytes, const std::vector<std::string>& others,
                          std::mt19937& random) {
  static const std::vector<std::string> kLimits = {"0",
                                                   "1",
                                                   "-1",
                                                   "8",
                                                   "4294967296",
                                                   "9223372036854775807",
                                                   "18446744073709551615",
                                                   "18446744073709551616",
                                                   "1e3",
                                                   "[]",
                                                   "{}",
                                                   "\"a\""};
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
    const std::size_t at = below(bytes.size()),
                      count = std::min<std::size_t>(below(12), bytes.size() - at);
    switch (below(5)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, count);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, count));
        break;
      case 3: {
        const std::string& other = others[below(others.size())];
        bytes.insert(at, other.substr(below(other.size()), below(40)));
        break;
      }
      default: {
        const std::size_t digits = bytes.find_first_of("0123456789", at);
        if (digits == std::string::npos) break;
        const std::size_t end = bytes.find_first_not_of("0123456789", digits);
        bytes.replace(digits, (end == std::string::npos ? bytes.size() : end) - digits,
                      kLimits[below(kLimits.size())]);
      }
    }
  }
  return bytes;
}

}  // namespace sluice::test
