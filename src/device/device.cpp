#include "device/device.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include "base/cuda_driver.h"
#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct Found {
  int devices = 0;
  std::string missing;  // the cause if there are no devices
};

// Loads LibTorch's CUDA library. LibTorch caches whether CUDA exists, so this must precede any
// query.
Found find_devices() {
  static const Found found = []() -> Found {
    if (!c10::impl::hasDeviceGuardImpl(at::kCUDA)) {
      if (driver_devices().empty()) return {0, "the driver of NVIDIA's GPUs finds none"};
      if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {
        const char* const reason = dlerror();
        return {0, formatted("LibTorch's CUDA library cannot be loaded ({})",
                             reason ? reason : "no reason given")};
      }
    }
    if (!at::hasCUDA()) {
      return {0,
              "CUDA was used before LibTorch's CUDA library was loaded: make the ranks before you "
              "use a device, or link libtorch_cuda"};
    }
    const int devices = at::accelerator::deviceCount();
    return {devices, devices > 0 ? "" : "LibTorch finds none"};
  }();
  return found;
}

std::string text_of(int devices, int ranks) {
  return formatted("{} for {}", counted(devices, "device"), counted(ranks, "rank"));
}

}  // namespace

RankDevices devices_of_ranks(DeviceKind kind, const LocalPlaces& places) {
  RankDevices chosen;
  chosen.devices.assign(static_cast<std::size_t>(places.count), at::Device(at::kCPU));
  if (kind == DeviceKind::kCpu) return chosen;
  const Found found = find_devices();
  const bool shares = found.devices > 0 && ranks_share_devices();
  if (found.devices < places.on_machine && !shares) {
    if (kind == DeviceKind::kAuto) {
      if (found.devices > 0) {
        chosen.why =
            formatted("cpu: {} on this machine", text_of(found.devices, places.on_machine));
      }
      return chosen;
    }
    throw Error(
        ErrorKind::kUsage,
        {.what = found.devices == 0
                     ? formatted("there is no CUDA device: {}", found.missing)
                     : text_of(found.devices, places.on_machine) + " on this machine",
         .where = "training.device = \"cuda\"",
         .remedy = found.devices == 0 ? "set it to \"auto\" or \"cpu\", or run where "
                                        "nvidia-smi and a CUDA build of torch are"
                                      : "start at most one rank per device, or set it to \"cpu\""});
  }
  for (int i = 0; i < places.count; ++i) {
    chosen.devices[static_cast<std::size_t>(i)] =
        at::Device(at::kCUDA, static_cast<at::DeviceIndex>((places.first + i) % found.devices));
  }
  chosen.why = "cuda: " + text_of(found.devices, places.on_machine);
  return chosen;
}

}  // namespace sluice
