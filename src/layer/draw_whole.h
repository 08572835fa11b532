#pragma once

#include <ATen/ops/zeros.h>

#include <cstdint>

#include "layer/slice.h"
#include "sluice/layer.h"

namespace sluice {

// Calls draw(at::Tensor& whole) with the whole parameter and copies this rank's slices to `value`.
template <typename Draw>
void draw_whole(const ParameterInfo& parameter, at::Tensor& value, Draw draw) {
  if (parameter.is_whole()) {
    draw(value);
    return;
  }
  at::Tensor whole = at::zeros(parameter.global_shape, value.options());
  const auto box_of_whole = [&](const Slice& box) {
    at::Tensor part = whole;
    for (std::size_t d = 0; d < box.size(); ++d)
      part = part.narrow(static_cast<std::int64_t>(d), box[d].offset, box[d].size);
    return part;
  };
  for_each_box(parameter, value,
               [&](const Slice& box, const at::Tensor& part) { box_of_whole(box).copy_(part); });
  draw(whole);
  for_each_box(parameter, value,
               [&](const Slice& box, const at::Tensor& part) { part.copy_(box_of_whole(box)); });
}

}  // namespace sluice
