#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <cstdlib>
#include <limits>

namespace sluice::sim {

// Environment variables for programs unaware of the simulation. SIMULATED_DEVICE_BYTES is the
// memory of a device. All devices are lost at operator number SIMULATED_DEVICE_FAILS_AT. Read once,
// because a test may set variables while other threads compute.
inline std::int64_t number_in(const char* variable,
                              std::int64_t otherwise = std::numeric_limits<std::int64_t>::max()) {
  const char* const text = std::getenv(variable);
  return text ? std::atoll(text) : otherwise;
}

c10::DeviceAllocator& device_allocator();
// Call once, and only if LibTorch has no real CUDA.
void register_kernels();

}  // namespace sluice::sim
