#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace sluice::io {

// Returns nullopt if torch has no such dtype.
std::optional<at::ScalarType> torch_dtype(std::string_view safetensors_dtype);
// Returns "" if safetensors has no such dtype.
std::string safetensors_dtype(at::ScalarType dtype);
// Whether the dtype is one of the float dtypes that we convert into each other.
bool is_plain_float(at::ScalarType dtype);

}  // namespace sluice::io
