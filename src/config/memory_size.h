#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::detail {

// Parses "80GB" (10^9), "1.5GiB" (2^30), "640 MiB" or "1048576", with units up to TB and TiB in any
// case. Returns none for other text and for sizes of 0 or less.
std::optional<std::int64_t> bytes_of_text(std::string_view text);

}  // namespace sluice::detail
