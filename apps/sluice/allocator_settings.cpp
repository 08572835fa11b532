#include "allocator_settings.h"

#include <string_view>

namespace sluice {
namespace {

struct Setting {
  std::string_view name;
  std::string_view value;
};

// A step allocates the memory that the previous step freed. By default glibc returns large blocks
// and the ends of its heaps to the kernel. The kernel must then clear and map every page again,
// several thousand times per step (docs/performance.md).
constexpr Setting kSettings[] = {
    // Allocate blocks of all sizes from heaps, which keep them. Only a block larger than a thread's
    // heap (64 MiB) still gets its own mapping.
    {"glibc.malloc.mmap_threshold", "1073741824"},
    // Keep the end of a heap, and a thread's heap that is briefly empty. glibc frees an empty heap
    // only if more than top_pad is free beside it. top_pad is the size of a whole heap.
    {"glibc.malloc.trim_threshold", "4294967296"},
    {"glibc.malloc.top_pad", "67108864"},
    // Grow heaps with madvise(MADV_HUGEPAGE), which reduces TLB misses and page faults.
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
