// The streams of transports where a SEND ends only with its RECV, as over NCCL.
//
// A stream runs its transfers one after the other, in the order of the row. Each transfer needs
// both of its ranks at once, so one that is not at the head of both streams holds up all that is
// behind it. The instructions of the row do not wait for a SEND.
//
// torch 2.13 posts every SEND and RECV of a program with transfers by itself, never several as one
// batch (`_PipelineScheduleRuntime`, `_batch_p2p`). ProcessGroupNCCL then runs them on one stream
// per pair of ranks or, where init_process_group() was given a device_id, on one stream per rank.
#pragma once

#include <cstdint>

namespace sluice::detail {

enum class Streams : std::uint8_t {
  kNone,     // no SEND waits
  kPerPair,  // one for both directions between two ranks
  kPerRank,  // one for all transfers of a rank; a program that completes here completes with
             // kPerPair
};

}  // namespace sluice::detail
