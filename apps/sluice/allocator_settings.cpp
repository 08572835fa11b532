#include "allocator_settings.h"

#include <string_view>

namespace sluice {
namespace {

struct Setting {
  std::string_view name;
  std::string_view value;
};

// A step allocates what the step before has freed. By default glibc gives large blocks and the ends
// of its heaps back to the kernel, and every page of them is faulted in and cleared again, several
// thousand times a step (docs/performance.md).
constexpr Setting kSettings[] = {
    // Blocks of all sizes come from heaps, which keep them, not from mappings of their own. A block
    // that is larger than a thread's heap (64 MiB) still is one.
    {"glibc.malloc.mmap_threshold", "1073741824"},
    // The end of a heap stays, and so does a heap of a thread that is empty for a moment: it goes
    // only when more than the padding, which is the size of a whole one, is free beside it.
    {"glibc.malloc.trim_threshold", "4294967296"},
    {"glibc.malloc.top_pad", "67108864"},
    // madvise(MADV_HUGEPAGE) for what heaps grow by: fewer misses of the TLB, fewer faults.
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
