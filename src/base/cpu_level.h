// The instruction sets that kernels are compiled for. SLUICE_CPU limits which of them this process
// uses.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr const char* kCpuVariable = "SLUICE_CPU";

// Ascending: a processor that supports a level also supports all lower ones.
enum class CpuLevel : std::uint8_t {
  kBase,    // every processor of the architecture
  kAvx2,    // AVX2 and FMA
  kAvx512,  // AVX-512 F, VL, DQ and BW
};

// Accepts base, avx2 and avx512. Throws Error(kUsage) for other words and suggests the nearest.
CpuLevel parse_cpu_level(std::string_view word);

// The best level of this processor.
CpuLevel processor_level();

// The best level of this processor that SLUICE_CPU allows. Throws as parse_cpu_level().
CpuLevel cpu_level();

}  // namespace sluice
