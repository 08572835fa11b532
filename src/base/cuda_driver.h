// The GPUs of this machine as NVIDIA's driver knows them: without LibTorch, without CUDA's headers.
//
// Owns: the loading of the driver's library, and the variable by which ranks share devices.
// Does not own: what LibTorch can do with a device (device/device.h). Thread-safety: pure
// functions, but for the driver's library, which has its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// 1 lets ranks of one machine share a device: for tests. A collective within a backward then needs
// its ranks in several processes, since one thread of LibTorch's engine serves a device.
inline constexpr const char* kShareDeviceVariable = "SLUICE_SHARE_DEVICE";
bool ranks_share_devices();

struct DriverDevice {
  std::string name;
  std::int64_t bytes = 0;  // of its memory, in all
};

// In the order in which CUDA numbers them, those that CUDA_VISIBLE_DEVICES leaves. None where there
// is no driver, or one that does not start.
std::vector<DriverDevice> driver_devices();

}  // namespace sluice
