// Names of dtypes, layouts and memory formats in archives, as torch has them.
// Thread-safety: pure functions.
#pragma once

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace sluice::detail {

// nullopt: torch has none of this name.
std::optional<at::ScalarType> scalar_type(std::string_view name);      // "float32"
std::optional<at::Layout> layout(std::string_view name);               // "strided"
std::optional<at::MemoryFormat> memory_format(std::string_view name);  // "channels_last"

}  // namespace sluice::detail
