#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace sluice::io {

// nullopt if torch has no such dtype
std::optional<at::ScalarType> torch_dtype(std::string_view safetensors_dtype);
// "" if the format has no such dtype
std::string safetensors_dtype(at::ScalarType dtype);
// dtypes that are converted into each other
bool is_plain_float(at::ScalarType dtype);

}  // namespace sluice::io
