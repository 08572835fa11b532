#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace sluice {

// Draws the LoRA parameter `name` in place from (seed, name). X.lora_B.weight becomes zero, so the
// adapter starts without effect. X.lora_A.weight is uniform(-b, b) with b = 1 / sqrt(in), as in
// torch's linear layers (He et al., arXiv:1502.01852, a = sqrt(5)).
void draw_low_rank(const std::string& name, at::Tensor& value, std::uint64_t seed);

}  // namespace sluice
