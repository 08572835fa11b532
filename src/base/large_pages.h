#pragma once

#include <cstddef>

namespace sluice {

// Requests 2 MiB pages, which need fewer TLB entries, for the whole pages within [begin, begin +
// size). The system may ignore it. Call before the first write, because pages are mapped when first
// touched.
void want_large_pages(void* begin, std::size_t size);

}  // namespace sluice
