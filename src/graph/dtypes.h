#pragma once

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace sluice::detail {

// All return std::nullopt for unknown names.
std::optional<at::ScalarType> scalar_type(std::string_view name);
std::optional<at::Layout> layout(std::string_view name);
std::optional<at::MemoryFormat> memory_format(std::string_view name);

}  // namespace sluice::detail
