// The dtypes that the format and torch share.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace sluice::io {

// nullopt: the format has it, torch has no element type for it (packed 4 and 6 bits).
std::optional<at::ScalarType> torch_dtype(std::string_view safetensors_dtype);
// "" when the format has no such dtype.
std::string safetensors_dtype(at::ScalarType dtype);
// float64, float32, float16, bfloat16: those that convert into each other.
bool is_plain_float(at::ScalarType dtype);

}  // namespace sluice::io
