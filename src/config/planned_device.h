// Predicts the device of a plan's ranks from NVIDIA's driver, without LibTorch, which chooses the
// device when a run starts (device/device.h).
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
