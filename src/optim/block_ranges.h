// Divides a stage's parameters into blocks of kGradientBlock elements. Each replica gets
// consecutive blocks with about the same number of elements. A parameter that is not contiguous is
// one block. For slices see slice_blocks.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// Elements [begin, end) of a parameter in memory order.
struct ElementRange {
  std::size_t parameter = 0;
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// The ends of a tensor's blocks in memory, ascending. The last is numel().
std::vector<std::int64_t> block_ends(const at::Tensor& parameter);

// Returns [owner][range] for parameters with these ascending indices. ends: block ends of each
// parameter.
std::vector<std::vector<ElementRange>> divide_blocks(
    const std::vector<std::vector<std::int64_t>>& ends, const std::vector<std::size_t>& indices,
    int num_owners);

// Returns a flat tensor, which shares the memory of a contiguous one. For any other tensor the
// range must be all of it.
at::Tensor elements_of(const at::Tensor& whole, const ElementRange& range);
void set_elements(const at::Tensor& whole, const ElementRange& range, const at::Tensor& flat);

}  // namespace sluice
