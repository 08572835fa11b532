// A stand-in for NCCL between the simulated devices of one process. It moves bytes, follows NCCL's
// rules, and records violations.
//
// A send reads its memory when its stream reaches it, and completes once the matching receive is
// posted. A send without a receive blocks its stream forever. The first transfer of a communicator
// connects it, and the send is in progress until then. The simulated device runs operators
// immediately, so a receive is in progress until its bytes arrive.
//
// Recorded violations: transfers that do not match in size or direction, calls on a communicator
// that is in progress or has ended, a stream shared by two communicators, a group left open, and a
// communicator that is never ended or is finalized while transfers wait. Thread-safe like NCCL.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nccl/nccl_table.h"

namespace sluice::sim {

struct NcclScript {
  // The function that fails, and the index of the failing call. "lost" means that this send is
  // never received. "async" means that the transfer's communicator then reports an error.
  std::string function;
  std::int64_t call = 0;
  nccl::Result result = nccl::kSystemError;
  int version = 22907;
  bool one_device = false;  // allows both ends of a communicator on one device
};

struct NcclCounts {
  std::int64_t communicators = 0, sends = 0, receives = 0, groups = 0, bytes = 0;
  std::int64_t finalized = 0, destroyed = 0, aborted = 0;
  std::int64_t unmatched = 0;
};

const nccl::Table& recording_nccl();
void start_recording(const NcclScript& script = {});
NcclCounts nccl_counts();
std::vector<std::string> nccl_faults();

}  // namespace sluice::sim
