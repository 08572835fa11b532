// Decides which parameters have a default initial value if LayerSpec::initialize sets none.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace sluice {

// True for floating-point tensors. Other types, such as packed weights, cannot be drawn.
inline bool is_drawn_type(const at::Tensor& value) {
  return at::isFloatingType(value.scalar_type());
}
inline bool has_default_normal(const at::Tensor& value) {
  return is_drawn_type(value) && value.dim() >= 2;
}
inline bool has_default_ones(const std::string& name, const at::Tensor& value) {
  return is_drawn_type(value) && value.dim() < 2 && (name == "weight" || name.ends_with(".weight"));
}
inline bool has_default_zeros(const std::string& name, const at::Tensor& value) {
  return is_drawn_type(value) && value.dim() < 2 && !has_default_ones(name, value) &&
         name.ends_with("bias");
}
inline bool has_default_value(const std::string& name, const at::Tensor& value) {
  return has_default_normal(value) || has_default_ones(name, value) ||
         has_default_zeros(name, value);
}

}  // namespace sluice
