// The box that a slice is of a whole tensor: its shape, its text, its runs of elements; the boxes
// of what a rank holds of a parameter. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/layer.h"
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

// Calls visit(box of the whole, the elements of `local` that it is, a view) for each box of the
// parameter. local: of the shape of its tensor.
void for_each_box(const ParameterInfo& parameter, const at::Tensor& local,
                  const std::function<void(const Slice& box, at::Tensor part)>& visit);

// The boxes of `local`, of the shape of the parameter's tensor, that one of the rank's slices is:
// views, one for each section. Precondition: `slice` is within parameter.slices.
std::vector<at::Tensor> parts_of_slice(const ParameterInfo& parameter, const at::Tensor& local,
                                       int slice);

// "slices 2 to 4 of 8 of [64, 32]".
std::string held_text(const ParameterInfo& parameter);

}  // namespace sluice
