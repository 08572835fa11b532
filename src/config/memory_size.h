// Amounts of memory as people write them.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::detail {

// "80GB" (10^9 each), "1.5GiB" (2^30), "640 MiB", "1048576"; units B, KB, MB, GB, TB, KiB, MiB,
// GiB, TiB in any case. None: it is none of these, or not above 0.
std::optional<std::int64_t> bytes_of_text(std::string_view text);

}  // namespace sluice::detail
