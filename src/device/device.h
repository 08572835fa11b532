// The device on which a rank computes: its local rank's, or the CPU.
//
// Owns: the choice, its refusals, and the loading of LibTorch's CUDA library, which nothing else
// asks for. Does not own: streams and events (ready.h), memory.
//
// Invariants:
//  1. Where no device is asked for, or `auto` finds too few, nothing is loaded and all is CPU.
//  2. Devices are LibTorch's own by its generic classes: no header of CUDA is seen.
// Thread-safety: pure functions, but for the loading, which is once a process.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <string>
#include <vector>

#include "sluice/options.h"

namespace sluice {

// The ranks of one process among those of its machine.
struct LocalPlaces {
  int first = 0;       // local rank of the first here
  int count = 1;       // here
  int on_machine = 1;  // of all processes
};

struct RankDevices {
  std::vector<at::Device> devices;  // of the ranks here, in their order
  std::string why;  // for the log: "cuda, 4 devices for 4 ranks"; "": no device was there to take
};

// Throws Error(kUsage) for `cuda` where LibTorch has none, or fewer devices than ranks are on the
// machine.
RankDevices devices_of_ranks(DeviceKind kind, const LocalPlaces& places);

// While it lives, `device` is the current one of this thread.
using DeviceScope = c10::OptionalDeviceGuard;

}  // namespace sluice
