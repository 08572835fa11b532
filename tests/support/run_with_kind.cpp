// run_with_kind PRODUCTS LEVEL PROGRAM ARGUMENT ..: a program with this kind of matrix products
// and this instruction set, of LibTorch's libraries too; 77, which ctest takes for skipped, where
// the processor has no such instruction set.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/cpu_level.h"
#include "base/product_kind.h"
#include "sluice/error.h"

namespace {

using namespace sluice;

struct Variable {
  const char *name, *value;
};

// Variables that cap the libraries behind LibTorch alike, as far as they let themselves be capped.
// At base they are left as they are: below AVX2 they have nothing that a machine of today would
// take.
std::vector<Variable> caps_of(CpuLevel level) {
  if (level == CpuLevel::kBase) return {};
  const bool is_avx2 = level == CpuLevel::kAvx2;
  return {{"ATEN_CPU_CAPABILITY", is_avx2 ? "avx2" : "avx512"},
          {"MKL_ENABLE_INSTRUCTIONS", is_avx2 ? "AVX2" : "AVX512"},
          {"ONEDNN_MAX_CPU_ISA", is_avx2 ? "AVX2" : "AVX512_CORE"}};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::fputs("run_with_kind PRODUCTS LEVEL PROGRAM ARGUMENT ..\n", stderr);
    return 2;
  }
  const char *const products = argv[1], *const level = argv[2];
  parse_product_kind(products);
  const CpuLevel wanted = parse_cpu_level(level);
  if (wanted > processor_level()) {
    std::printf("skipped: this processor has no %s\n", level);
    return 77;
  }
  std::vector<Variable> variables = caps_of(wanted);
  variables.push_back({kProductsVariable, products});
  variables.push_back({kCpuVariable, level});
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
