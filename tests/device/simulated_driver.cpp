// A stand-in for NVIDIA's driver with the functions that src/base/cuda_driver.cpp calls. It reports
// SIMULATED_GPUS devices (default 4) of 16 GiB. It is built as libcuda.so.1; programs find it
// through LD_LIBRARY_PATH.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

int num_devices() {
  const char* const text = std::getenv("SIMULATED_GPUS");
  return text ? std::atoi(text) : 4;
}

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) { return 0; }
int cuDeviceGetCount(int* count) {
  *count = num_devices();
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < num_devices() ? 0 : 101;
}
int cuDeviceGetName(char* name, int length, int /*device*/) {
  std::snprintf(name, static_cast<std::size_t>(length), "Simulated GPU");
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int /*device*/) {
  *bytes = std::size_t{16} << 30;
  return 0;
}
}
