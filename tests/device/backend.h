// The two halves of the simulated device's registration. Thread-safety: any thread.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <cstdlib>
#include <limits>

namespace sluice::sim {

// For programs that know nothing of the simulation: SIMULATED_DEVICE_BYTES, the memory of a device,
// and SIMULATED_DEVICE_FAILS_AT, the number of the operator at which all devices are lost.
// Asked for once: a test may set variables while other threads compute.
inline std::int64_t number_in(const char* variable,
                              std::int64_t otherwise = std::numeric_limits<std::int64_t>::max()) {
  const char* const text = std::getenv(variable);
  return text ? std::atoll(text) : otherwise;
}

c10::DeviceAllocator& device_allocator();
// Once, where LibTorch has no CUDA of its own.
void register_kernels();

}  // namespace sluice::sim
