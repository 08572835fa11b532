#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/layer.h"
#include "sluice/parts/values.h"

namespace sluice {

// Returns a slice's shape. Throws Error(kInternal) naming `name` if the slice does not fit the
// tensor's shape.
std::vector<std::int64_t> shape_of(const Slice& slice, const std::vector<std::int64_t>& shape,
                                   const std::string& name);
// Formats a slice, for example as "[0:4, 2:3]".
std::string to_text(const Slice& slice);

// Calls visit(first element in the whole tensor, first element in the slice, count) for each
// contiguous run of the slice, in row-major order. A slice of whole rows is one run. shape_of()
// must accept the slice.
void for_each_run(const Slice& slice, const std::vector<std::int64_t>& shape,
                  const std::function<void(std::int64_t in_whole, std::int64_t in_box,
                                           std::int64_t count)>& visit);

// Calls visit(position in the whole parameter, view of its elements) for each box in this rank's
// tensor `local`.
void for_each_box(const ParameterInfo& parameter, const at::Tensor& local,
                  const std::function<void(const Slice& box, at::Tensor part)>& visit);

// Returns views of one slice in `local`, one per section (such as q, k and v). `slice` must be in
// parameter.slices.
std::vector<at::Tensor> parts_of_slice(const ParameterInfo& parameter, const at::Tensor& local,
                                       int slice);

// For example "slices 2 to 4 of 8 of [64, 32]".
std::string held_text(const ParameterInfo& parameter);

}  // namespace sluice
