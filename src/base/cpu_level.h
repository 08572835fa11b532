// Selects the CPU instructions that sluice's kernels use.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr const char* kCpuVariable = "SLUICE_CPU";

// Each level includes the levels before it.
enum class CpuLevel : std::uint8_t {
  kBase,    // every processor of the architecture
  kAvx2,    // AVX2 and FMA
  kAvx512,  // AVX-512 F, VL, DQ and BW
};

// Throws Error(kUsage) unless the word is base, avx2 or avx512.
CpuLevel parse_cpu_level(std::string_view word);

CpuLevel processor_level();

// Returns the highest level that the processor has and the environment variable SLUICE_CPU allows.
// Throws Error(kUsage) for an unknown word in SLUICE_CPU.
CpuLevel cpu_level();

}  // namespace sluice
