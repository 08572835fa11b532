// Predicts the device of a plan's ranks with NVIDIA's driver, without LibTorch. When a run starts,
// LibTorch chooses the device (device/device.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sluice/options.h"

namespace sluice {

struct PlannedDevice {
  bool is_cuda = false;
  std::optional<std::int64_t> bytes;  // memory of the smallest device; none: unknown
  std::string note;
};

PlannedDevice planned_device(DeviceKind kind, int ranks_on_machine);

}  // namespace sluice
