// The CPU instructions of sluice's kernels.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr const char* kCpuVariable = "SLUICE_CPU";

// In ascending order.
enum class CpuLevel : std::uint8_t {
  kBase,    // every processor of the architecture
  kAvx2,    // AVX2 and FMA
  kAvx512,  // AVX-512 F, VL, DQ and BW
};

CpuLevel parse_cpu_level(std::string_view word);

CpuLevel processor_level();

// The highest level that the processor has and $SLUICE_CPU allows. Throws Error(kUsage) for an
// unknown word.
CpuLevel cpu_level();

}  // namespace sluice
