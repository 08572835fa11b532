// Models transports whose SEND ends only together with its RECV, such as NCCL.
//
// A stream runs a rank's transfers in program order. A transfer needs both ranks at once, so it
// blocks later transfers until it is first on both streams. Other instructions do not wait for a
// SEND.
//
// PyTorch 2.13 issues every SEND and RECV separately (`_batch_p2p`). ProcessGroupNCCL uses one
// stream per pair of ranks, or one per rank if init_process_group() received a device_id.
#pragma once

#include <cstdint>

namespace sluice::detail {

enum class Streams : std::uint8_t {
  kNone,     // a SEND never waits
  kPerPair,  // one per pair of ranks, for both directions
  kPerRank,  // one per rank, for all its transfers; at least as strict as kPerPair
};

}  // namespace sluice::detail
