// The box that a slice is of a whole tensor: its shape, its text, its runs of elements.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/parts/values.h"

namespace sluice {

// The shape of the box. Throws Error(kInternal) naming `name` for a slice with another number of
// dimensions, or one that reaches beyond the shape.
std::vector<std::int64_t> shape_of(const Slice& slice, const std::vector<std::int64_t>& shape,
                                   const std::string& name);
// "[0:4, 2:3]".
std::string to_text(const Slice& slice);

// The elements of the box in row-major order, as runs that are contiguous in the whole tensor:
// visit(first element in the whole, in the box, how many). One run for a box of whole rows.
// Precondition: shape_of() accepts it.
void for_each_run(const Slice& slice, const std::vector<std::int64_t>& shape,
                  const std::function<void(std::int64_t in_whole, std::int64_t in_box,
                                           std::int64_t count)>& visit);

}  // namespace sluice
