// The instruction sets that kernels are compiled for, and which of them this process uses.
//
// Owns: SLUICE_CPU and its words. Does not own: the kernels (ops/kernels).
// Thread-safety: pure functions of the processor and the environment.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr const char* kCpuVariable = "SLUICE_CPU";

// In ascending order: a processor that has one has those before it.
enum class CpuLevel : std::uint8_t {
  kBase,    // what every processor of the architecture has
  kAvx2,    // AVX2 and FMA
  kAvx512,  // AVX-512 F, VL, DQ and BW
};

// Throws Error(kUsage) at another word than base, avx2 and avx512, with the nearest.
CpuLevel parse_cpu_level(std::string_view word);

// The best that this processor has.
CpuLevel processor_level();

// The better of those that the processor has and SLUICE_CPU, where it is set, allows. Throws as
// parse_cpu_level.
CpuLevel cpu_level();

}  // namespace sluice
