#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace sluice::io {

std::optional<at::ScalarType> torch_dtype(std::string_view safetensors_dtype);
std::string safetensors_dtype(at::ScalarType dtype);
// Whether we convert this float dtype to other ones.
bool is_plain_float(at::ScalarType dtype);

}  // namespace sluice::io
