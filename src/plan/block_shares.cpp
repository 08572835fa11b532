#include "plan/block_shares.h"

#include <algorithm>
#include <cmath>

#include "base/saturate.h"

namespace sluice::detail {
namespace {

constexpr std::int64_t kBlock = 16384;

double as_double(std::int64_t count) { return static_cast<double>(count); }

}  // namespace

// A block belongs to the owner whose share of all elements contains the block's middle.
std::vector<std::int64_t> block_shares(const std::vector<std::int64_t>& sizes, int num_owners) {
  std::vector<std::int64_t> shares(static_cast<std::size_t>(num_owners), 0);
  double all = 0, before = 0;
  for (const std::int64_t size : sizes) all += as_double(size);
  for (const std::int64_t size : sizes) {
    const std::int64_t num_whole = size / kBlock, rest = size % kBlock;
    const auto blocks_before = [&](double place) {
      const double blocks = std::ceil((place - before) / as_double(kBlock) - 0.5);
      return static_cast<std::int64_t>(std::clamp(blocks, 0.0, as_double(num_whole)));
    };
    std::int64_t given = 0;
    for (int owner = 0; owner < num_owners; ++owner) {
      const bool is_last = owner + 1 == num_owners;
      const std::int64_t until =
          is_last ? num_whole : blocks_before(all * (owner + 1) / num_owners);
      shares[owner] = saturating_add(shares[owner], saturating_multiply(until - given, kBlock));
      given = until;
    }
    if (rest > 0) {
      const double middle = before + as_double(num_whole * kBlock) + as_double(rest) / 2;
      const double owner = std::min(std::floor(middle * num_owners / all), num_owners - 1.0);
      std::int64_t& share = shares[static_cast<std::size_t>(owner)];
      share = saturating_add(share, rest);
    }
    before += as_double(size);
  }
  return shares;
}

}  // namespace sluice::detail
