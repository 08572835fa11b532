// The division of a stage's parameters among its replicas: in blocks of kGradientBlock elements of
// each parameter, in layer order, to every replica a range of blocks that follow each other, of
// about as many elements.
//
// A parameter whose memory is not contiguous is one block; one that is divided into slices has
// blocks of its own (slice_blocks.h).
// Thread-safety: pure functions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

// Elements [begin, end) of a parameter, in the order of memory.
struct ElementRange {
  std::size_t parameter = 0;  // index within its stage
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// The ends of a tensor's blocks in memory, ascending; the last is numel().
std::vector<std::int64_t> block_ends(const at::Tensor& parameter);

// [owner][range]: of the parameters with these indices, ascending. ends: of the blocks of each
// parameter.
std::vector<std::vector<ElementRange>> divide_blocks(
    const std::vector<std::vector<std::int64_t>>& ends, const std::vector<std::size_t>& indices,
    int num_owners);

// Elements of a contiguous tensor, or all elements of any: flat, sharing its memory where it is
// contiguous.
at::Tensor elements_of(const at::Tensor& whole, const ElementRange& range);
void set_elements(const at::Tensor& whole, const ElementRange& range, const at::Tensor& flat);

}  // namespace sluice
