// The device of a plan's ranks, as far as NVIDIA's driver knows it: LibTorch, which
// decides when a run starts (device/device.h), is not asked.
//
// Owns: nothing. Thread-safety: pure functions, but for the driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sluice/options.h"

namespace sluice {

struct PlannedDevice {
  bool is_cuda = false;
  std::optional<std::int64_t> bytes;  // of the smallest device; none: not known here
  std::string note;                   // for people; "": the CPU, and nothing else was possible
};

PlannedDevice planned_device(DeviceKind kind, int ranks_on_machine);

}  // namespace sluice
