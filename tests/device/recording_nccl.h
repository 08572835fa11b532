// NCCL's functions between the simulated devices of one process: they move bytes, keep to NCCL's
// rules, and write down who breaks them.
//
// A send reads its memory when its stream comes to it, and ends when the receive that belongs to it
// has been posted; one that is never received never ends, and its stream with it. The first
// transfer of a communicator connects it: the send is in progress until then. Since the simulated
// device runs operators at once, a receive is in progress until the bytes are there.
//
// Faults: transfers that do not fit each other in size or direction; calls for a communicator that
// is in progress or has ended; a stream that belongs to two communicators; a group that is left
// open; a communicator that is finalized while transfers wait, or is never ended.
// Does not own: clocks and memory (machine.h). Thread-safety: as NCCL's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nccl/nccl_table.h"

namespace sluice::sim {

struct NcclScript {
  // The function that fails, its call from 0, and how. "lost": that send is never received;
  // "async": the communicator of that transfer is in error afterwards.
  std::string function;
  std::int64_t call = 0;
  nccl::Result result = nccl::kSystemError;
  int version = 22907;
  bool one_device = false;  // both ends of a communicator may be on one device
};

struct NcclCounts {
  std::int64_t communicators = 0, sends = 0, receives = 0, groups = 0, bytes = 0;
  std::int64_t finalized = 0, destroyed = 0, aborted = 0;
  std::int64_t unmatched = 0;  // sends that were never received
};

const nccl::Table& recording_nccl();
void start_recording(const NcclScript& script = {});
NcclCounts nccl_counts();
// The rules that were broken since start_recording(), in words.
std::vector<std::string> nccl_faults();

}  // namespace sluice::sim
