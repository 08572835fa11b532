// What flows on a channel. A channel is one FIFO per source rank, destination rank and kind.
// Thread-safety: values.
#pragma once

#include <cstdint>

namespace sluice {

enum class ChannelKind : std::uint8_t { kActivation, kGradient };

}  // namespace sluice
