#include "optim/block_ranges.h"

#include <algorithm>

#include "optim/gradient_norm.h"

namespace sluice {

std::vector<std::int64_t> block_ends(const at::Tensor& parameter) {
  const std::int64_t numel = parameter.numel();
  const std::int64_t block =
      parameter.is_contiguous() ? kGradientBlock : std::max<std::int64_t>(numel, 1);
  std::vector<std::int64_t> ends;
  for (std::int64_t begin = 0; begin == 0 || begin < numel; begin += block)
    ends.push_back(std::min(begin + block, numel));
  return ends;
}

std::vector<std::vector<ElementRange>> divide_blocks(
    const std::vector<std::vector<std::int64_t>>& ends, const std::vector<std::size_t>& indices,
    int num_owners) {
  std::int64_t all = 0, before = 0;
  for (const std::size_t index : indices) all += ends[index].back();
  std::vector<std::vector<ElementRange>> of_owner(static_cast<std::size_t>(num_owners));
  for (const std::size_t index : indices) {
    std::int64_t begin = 0;
    for (const std::int64_t end : ends[index]) {
      // A replica owns a block if the block's middle is in the replica's share of all elements.
      const std::int64_t twice_middle = 2 * before + begin + end;
      const std::int64_t owner = all == 0 ? 0 : twice_middle * num_owners / (2 * all);
      auto& ranges =
          of_owner[static_cast<std::size_t>(std::min<std::int64_t>(owner, num_owners - 1))];
      if (!ranges.empty() && ranges.back().parameter == index) {
        ranges.back().end = end;
      } else {
        ranges.push_back({index, begin, end});
      }
      begin = end;
    }
    before += ends[index].back();
  }
  return of_owner;
}

at::Tensor elements_of(const at::Tensor& whole, const ElementRange& range) {
  const at::Tensor flat = whole.detach().contiguous().view(-1);
  return flat.narrow(0, range.begin, range.size());
}

void set_elements(const at::Tensor& whole, const ElementRange& range, const at::Tensor& flat) {
  const at::Tensor target = whole.detach();
  if (target.is_contiguous()) {
    target.view(-1).narrow(0, range.begin, range.size()).copy_(flat);
  } else {
    target.copy_(flat.view(target.sizes()));
  }
}

}  // namespace sluice
