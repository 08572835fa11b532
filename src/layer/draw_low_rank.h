// Initial values of adapters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace sluice {

// Draws the parameter `name`, whole, in place: zeros for X.lora_B.weight, so that an adapter starts
// as nothing; for X.lora_A.weight uniform(-b, b), b = 1 / sqrt(in), as torch draws a linear layer
// (He et al., arXiv:1502.01852, with a = sqrt(5)). A function of (seed, name) alone.
void draw_low_rank(const std::string& name, at::Tensor& value, std::uint64_t seed);

}  // namespace sluice
