// Chooses each rank's device by local rank, or the CPU. Only this file loads LibTorch's CUDA
// library, once per process and not for `cpu`. No CUDA headers are needed.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <string>
#include <vector>

#include "sluice/options.h"

namespace sluice {

// Which of a machine's ranks are in this process.
struct LocalPlaces {
  int first = 0;       // local rank of the first one
  int count = 1;       // in this process
  int on_machine = 1;  // in all processes
};

struct RankDevices {
  std::vector<at::Device> devices;  // of this process's ranks, in order
  std::string why;  // for the log: "cuda: 4 devices for 4 ranks"; "" without devices
};

// Throws Error(kUsage) for `cuda` without enough devices for the ranks of this machine.
RankDevices devices_of_ranks(DeviceKind kind, const LocalPlaces& places);

// Makes `device` this thread's current device for its lifetime.
using DeviceScope = c10::OptionalDeviceGuard;

}  // namespace sluice
