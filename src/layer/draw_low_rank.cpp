#include "layer/draw_low_rank.h"

#include <ATen/ATen.h>

#include <cmath>

#include "sluice/layer.h"

namespace sluice {

void draw_low_rank(const std::string& name, at::Tensor& value, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  if (name.ends_with("lora_B.weight")) {
    value.zero_();
    return;
  }
  const KeyedRandomScope scope(seed, 0, name, 0);
  const double bound = 1.0 / std::sqrt(static_cast<double>(value.size(1)));
  // Draw on the CPU in float32, so that all devices and dtypes start from the same numbers.
  value.copy_(at::empty(value.sizes(), at::TensorOptions(at::kFloat)).uniform_(-bound, bound));
}

}  // namespace sluice
