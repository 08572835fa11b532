// Identifies the forward and backward of a microbatch on a stage.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace sluice::detail {

struct StageMicrobatch {
  std::int32_t stage = -1, microbatch = -1;

  friend auto operator<=>(const StageMicrobatch&,
                          const StageMicrobatch&) = default;  // NOLINT(modernize-use-nullptr)
};

}  // namespace sluice::detail

template <>
struct std::hash<sluice::detail::StageMicrobatch> {
  std::size_t operator()(const sluice::detail::StageMicrobatch& of) const noexcept {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(of.stage)) << 32) |
           static_cast<std::uint32_t>(of.microbatch);
  }
};
