#include "base/large_pages.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstdint>

namespace sluice {

void want_large_pages(void* begin, std::size_t size) {
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (at + kPage - 1) / kPage * kPage, last = (at + size) / kPage * kPage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
  (void)begin;
  (void)size;
#endif
}

}  // namespace sluice
