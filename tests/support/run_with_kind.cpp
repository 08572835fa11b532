// run_with_kind PRODUCTS SETTING PROGRAM ARGUMENT ..
//
// Runs a program with one kind of matrix products. SETTING limits the instruction sets of our
// kernels and of LibTorch's libraries. Child processes inherit the limits. Returns 77, which ctest
// counts as skipped, if the processor lacks the instruction set. SETTING is one of
//   base, avx2, avx512: uses nothing better;
//   compatible: avx2, and MKL uses the products that it has for every processor.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/cpu_level.h"
#include "base/product_kind.h"
#include "sluice/error.h"

namespace {

using namespace sluice;

struct Variable {
  const char *name, *value;
};

constexpr std::string_view kCompatible = "compatible";

CpuLevel level_of(std::string_view setting) {
  return setting == kCompatible ? CpuLevel::kAvx2 : parse_cpu_level(setting);
}

// Limits for the libraries behind LibTorch. "base" sets none: below AVX2 these libraries have no
// code path that a current machine would use.
std::vector<Variable> caps_of(std::string_view setting) {
  const CpuLevel level = level_of(setting);
  if (level == CpuLevel::kBase) return {};
  const bool is_avx2 = level == CpuLevel::kAvx2;
  std::vector<Variable> caps = {{"ATEN_CPU_CAPABILITY", is_avx2 ? "avx2" : "avx512"},
                                {"MKL_ENABLE_INSTRUCTIONS", is_avx2 ? "AVX2" : "AVX512"},
                                {"ONEDNN_MAX_CPU_ISA", is_avx2 ? "AVX2" : "AVX512_CORE"}};
  if (setting == kCompatible) caps.push_back({"MKL_CBWR", "COMPATIBLE"});
  return caps;
}

constexpr const char* word_of(CpuLevel level) {
  return level == CpuLevel::kBase ? "base" : level == CpuLevel::kAvx2 ? "avx2" : "avx512";
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::fputs("run_with_kind PRODUCTS SETTING PROGRAM ARGUMENT ..\n", stderr);
    return 2;
  }
  const char *const products = argv[1], *const setting = argv[2];
  parse_product_kind(products);
  const CpuLevel level = level_of(setting);
  if (level > processor_level()) {
    std::printf("skipped: this processor has no %s\n", word_of(level));
    return 77;
  }
  std::vector<Variable> variables = caps_of(setting);
  variables.push_back({kProductsVariable, products});
  variables.push_back({kCpuVariable, word_of(level)});
  for (const auto& [name, value] : variables) {
    std::printf("%s=%s ", name, value);
    setenv(name, value, /*overwrite=*/1);
  }
  std::puts("");
  std::fflush(stdout);
  execvp(argv[3], argv + 3);
  std::perror(argv[3]);
  return 127;
} catch (const sluice::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
