// Chooses each rank's device by local rank, or the CPU. Only device.cpp loads LibTorch's CUDA
// library, once per process and not for `cpu`.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <string>
#include <vector>

#include "sluice/options.h"

namespace sluice {

// Which of a machine's ranks run in this process.
struct LocalPlaces {
  int first = 0;       // local rank of this process's first rank
  int count = 1;       // ranks in this process
  int on_machine = 1;  // ranks on this machine
};

struct RankDevices {
  std::vector<at::Device> devices;  // one per rank of this process
  std::string why;                  // reason, for the log: "cuda: 4 devices for 4 ranks"
};

// Throws Error(kUsage) for `cuda` if this machine has fewer devices than ranks.
RankDevices devices_of_ranks(DeviceKind kind, const LocalPlaces& places);

using DeviceScope = c10::OptionalDeviceGuard;

}  // namespace sluice
