#pragma once

#include <cstddef>

namespace sluice {

// Requests 2 MiB pages, which need fewer TLB entries, for the part of the range that they fit. Call
// before the first write, because the first write maps the pages.
void want_large_pages(void* begin, std::size_t size);

}  // namespace sluice
