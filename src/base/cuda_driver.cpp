#include "base/cuda_driver.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdlib>

namespace sluice {
namespace {

using Init = int (*)(unsigned);
using GetCount = int (*)(int*);
using Get = int (*)(int*, int);
using GetName = int (*)(char*, int, int);
using TotalMemory = int (*)(std::size_t*, int);

template <typename Function>
Function function_of(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

bool ranks_share_devices() {
  const char* const value = std::getenv(kShareDeviceVariable);
  return value && std::string(value) == "1";
}

std::vector<DriverDevice> driver_devices() {
  // Never closed, because the driver cannot be shut down.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return {};
  const auto init = function_of<Init>(library, "cuInit");
  const auto get_count = function_of<GetCount>(library, "cuDeviceGetCount");
  const auto get = function_of<Get>(library, "cuDeviceGet");
  const auto get_name = function_of<GetName>(library, "cuDeviceGetName");
  const auto total_memory = function_of<TotalMemory>(library, "cuDeviceTotalMem_v2");
  int count = 0;
  if (!init || !get_count || !get || !get_name || !total_memory || init(0) != 0 ||
      get_count(&count) != 0) {
    return {};
  }
  std::vector<DriverDevice> devices;
  for (int i = 0; i < count; ++i) {
    int device = 0;
    std::size_t bytes = 0;
    std::array<char, 256> name{};
    if (get(&device, i) != 0 || total_memory(&bytes, device) != 0) return {};
    get_name(name.data(), static_cast<int>(name.size()) - 1, device);
    devices.push_back({name.data(), static_cast<std::int64_t>(bytes)});
  }
  return devices;
}

}  // namespace sluice
