// Initial values by a function of a user's, which knows no slices.
#pragma once

#include <ATen/ops/zeros.h>

#include <cstdint>

#include "sluice/layer.h"

namespace sluice {

// draw(at::Tensor& whole) is given the whole parameter, of which the slice is kept in `value`.
template <typename Draw>
void draw_whole(const ParameterInfo& parameter, at::Tensor& value, Draw draw) {
  if (parameter.is_whole()) {
    draw(value);
    return;
  }
  at::Tensor whole = at::zeros(parameter.global_shape, value.options());
  at::Tensor box = whole;
  for (std::size_t d = 0; d < parameter.slice.size(); ++d) {
    const auto [offset, size] = parameter.slice[d];
    box = box.narrow(static_cast<std::int64_t>(d), offset, size);
  }
  box.copy_(value);
  draw(whole);
  value.copy_(box);
}

}  // namespace sluice
