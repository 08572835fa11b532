// Names a FIFO between two ranks. Depending on the transport, activations and gradients have
// separate FIFOs or share one.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "sluice/parts/flow.h"

namespace sluice::detail {

struct Channel {
  std::int32_t source = -1, destination = -1;
  ChannelKind kind = ChannelKind::kActivation;

  friend auto operator<=>(const Channel&,
                          const Channel&) = default;  // NOLINT(modernize-use-nullptr)
};

enum class ChannelsPer : std::uint8_t { kKind, kDirection };

inline Channel fifo_of(const Channel& channel, ChannelsPer per) {
  if (per == ChannelsPer::kKind) return channel;
  return {channel.source, channel.destination, ChannelKind::kActivation};
}

template <typename Value>
struct PerKind {
  std::array<Value, 2> values{};

  Value& operator[](ChannelKind kind) { return values[static_cast<std::size_t>(kind)]; }
  const Value& operator[](ChannelKind kind) const { return values[static_cast<std::size_t>(kind)]; }
};

}  // namespace sluice::detail

template <>
struct std::hash<sluice::detail::Channel> {
  std::size_t operator()(const sluice::detail::Channel& channel) const noexcept {
    const auto source = static_cast<std::uint64_t>(static_cast<std::uint32_t>(channel.source));
    return (source << 33) ^ (std::uint64_t{static_cast<std::uint32_t>(channel.destination)} << 1) ^
           static_cast<std::uint64_t>(channel.kind);
  }
};
