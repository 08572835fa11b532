// Names of checkpoint folders: "step-00000012", at least eight digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::io {

std::string step_name(std::int64_t step);
std::optional<std::int64_t> step_of_name(std::string_view name);

}  // namespace sluice::io
