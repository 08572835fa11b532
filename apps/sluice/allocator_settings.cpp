#include "allocator_settings.h"

#include <string_view>

namespace sluice {
namespace {

struct Setting {
  std::string_view name;
  std::string_view value;
};

// By default, glibc returns large blocks and the ends of heaps to the kernel. The next step
// allocates them again, and the kernel must clear and map several thousand pages
// (docs/performance.md).
constexpr Setting kSettings[] = {
    // Take large blocks from heaps, which keep freed memory. A block larger than a thread's heap
    // (64 MiB) still gets its own mapping.
    {"glibc.malloc.mmap_threshold", "1073741824"},
    // Keep the free end of a heap, and a thread's heap that is briefly empty. glibc frees an empty
    // heap only if more than top_pad, the size of a heap, is free beside it.
    {"glibc.malloc.trim_threshold", "4294967296"},
    {"glibc.malloc.top_pad", "67108864"},
    // Use madvise(MADV_HUGEPAGE), for fewer TLB misses and page faults.
    {"glibc.malloc.hugetlb", "1"},
};

}  // namespace

std::string allocator_settings(const std::string& given) {
  std::string all = given;
  for (const Setting& setting : kSettings) {
    const std::string assignment = std::string(setting.name) + "=";
    if ((":" + given).find(":" + assignment) != std::string::npos) continue;
    if (!all.empty()) all += ":";
    all += assignment;
    all += setting.value;
  }
  return all;
}

}  // namespace sluice
