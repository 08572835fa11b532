#include "base/cpu_level.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/words.h"
#include "sluice/error.h"

namespace sluice {
namespace {

const detail::Words<CpuLevel>& levels() {
  static const detail::Words<CpuLevel> table = {
      {"base", CpuLevel::kBase}, {"avx2", CpuLevel::kAvx2}, {"avx512", CpuLevel::kAvx512}};
  return table;
}

}  // namespace

CpuLevel parse_cpu_level(std::string_view word) {
  const std::vector<std::string> words = detail::words_in(levels());
  const std::string text(word);
  if (std::find(words.begin(), words.end(), text) == words.end()) {
    throw Error(ErrorKind::kUsage, {.what = "unknown instruction set '" + text + "'",
                                    .where = kCpuVariable,
                                    .remedy = suggest_name(text, words)});
  }
  return detail::meaning_of(levels(), text);
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
