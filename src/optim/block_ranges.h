// Divides a stage's parameters into blocks of kGradientBlock elements. Each replica owns
// consecutive blocks with about the same number of elements. A non-contiguous parameter is one
// block. slice_blocks.h handles tensor-parallel slices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// Elements [begin, end) of a parameter, in memory order.
struct ElementRange {
  std::size_t parameter = 0;
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// Returns the ends of a tensor's blocks in memory, ascending. The last is numel().
std::vector<std::int64_t> block_ends(const at::Tensor& parameter);

// Returns the blocks as [owner][range]. ends: block ends of each parameter. indices: the
// parameters' indices, ascending.
std::vector<std::vector<ElementRange>> divide_blocks(
    const std::vector<std::vector<std::int64_t>>& ends, const std::vector<std::size_t>& indices,
    int num_owners);

// Returns the elements as a flat tensor, which is a view if `whole` is contiguous. If not, the
// range must be all of `whole`.
at::Tensor elements_of(const at::Tensor& whole, const ElementRange& range);
void set_elements(const at::Tensor& whole, const ElementRange& range, const at::Tensor& flat);

}  // namespace sluice
