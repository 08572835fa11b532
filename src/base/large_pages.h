// Memory on pages of 2 MiB, which take fewer entries in the processor's tables than those of 4 KiB.
// Thread-safety: pure functions.
#pragma once

#include <cstddef>

namespace sluice {

// Asks the system for them, which may ignore it, wherever [begin, begin + size) spans whole ones.
// To be called before anything is written: pages come as they are first touched.
void want_large_pages(void* begin, std::size_t size);

}  // namespace sluice
