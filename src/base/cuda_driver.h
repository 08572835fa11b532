// Lists this machine's GPUs through NVIDIA's driver, without LibTorch or CUDA headers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

// For tests: "1" lets ranks on one machine share a GPU. Collectives within a backward then need one
// process per rank, because LibTorch's autograd engine has one thread per device.
inline constexpr const char* kShareDeviceVariable = "SLUICE_SHARE_DEVICE";
bool ranks_share_devices();

struct DriverDevice {
  std::string name;
  std::int64_t bytes = 0;
};

// The devices that CUDA_VISIBLE_DEVICES allows, in CUDA's order. Empty without a working driver.
std::vector<DriverDevice> driver_devices();

}  // namespace sluice
