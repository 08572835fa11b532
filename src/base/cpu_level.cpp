#include "base/cpu_level.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/words.h"

namespace sluice {
namespace {

const detail::Words<CpuLevel>& levels() {
  static const detail::Words<CpuLevel> table = {
      {"base", CpuLevel::kBase}, {"avx2", CpuLevel::kAvx2}, {"avx512", CpuLevel::kAvx512}};
  return table;
}

}  // namespace

CpuLevel parse_cpu_level(std::string_view word) {
  return detail::parse_word(levels(), std::string(word), "instruction set", kCpuVariable);
}

CpuLevel processor_level() {
#ifdef __x86_64__
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
    return CpuLevel::kAvx512;
  if (avx2) return CpuLevel::kAvx2;
#endif
  return CpuLevel::kBase;
}

CpuLevel cpu_level() {
  const char* const word = std::getenv(kCpuVariable);
  if (!word || *word == '\0') return processor_level();
  return std::min(parse_cpu_level(word), processor_level());
}

}  // namespace sluice
