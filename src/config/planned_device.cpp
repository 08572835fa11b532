#include "config/planned_device.h"

#include <algorithm>

#include "base/cuda_driver.h"
#include "base/format.h"
#include "base/text.h"

namespace sluice {

PlannedDevice planned_device(DeviceKind kind, int ranks_on_machine) {
  PlannedDevice planned;
  if (kind == DeviceKind::kCpu) return planned;
  const std::vector<DriverDevice> devices = driver_devices();
  const std::string have =
      formatted("{} for {}", counted(static_cast<std::int64_t>(devices.size()), "device"),
                counted(ranks_on_machine, "rank"));
  const bool enough = static_cast<int>(devices.size()) >= ranks_on_machine ||
                      (!devices.empty() && ranks_share_devices());
  planned.is_cuda = kind == DeviceKind::kCuda || enough;
  if (!planned.is_cuda) {
    if (!devices.empty()) planned.note = "device: cpu, since this machine has " + have;
    return planned;
  }
  if (!enough) {
    planned.note = formatted(
        "device: cuda, and this machine has {}: its memory is not checked; set "
        "parallelism.device_memory to that of the run's machines",
        have);
    return planned;
  }
  planned.bytes = std::min_element(devices.begin(), devices.end(),
                                   [](const DriverDevice& a, const DriverDevice& b) {
                                     return a.bytes < b.bytes;
                                   })
                      ->bytes;
  planned.note = formatted("device: cuda, {}, {} each ({})", have, human_bytes(*planned.bytes),
                           devices.front().name);
  return planned;
}

}  // namespace sluice
