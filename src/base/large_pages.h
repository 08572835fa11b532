#pragma once

#include <cstddef>

namespace sluice {

// Requests 2 MiB pages, which need fewer TLB entries, where they fit within the range. Call before
// the first write, which maps the pages.
void want_large_pages(void* begin, std::size_t size);

}  // namespace sluice
