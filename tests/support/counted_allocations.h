// This header replaces operator new, so only one source file of a program may include it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>

namespace sluice::test {

struct Allocations {
  std::int64_t count = 0, bytes = 0;
};

namespace allocations_detail {
inline std::atomic<std::int64_t> count{0}, bytes{0};
}

// Counts allocations that the function frees, too.
inline Allocations allocations_of(const std::function<void()>& function) {
  using namespace allocations_detail;
  const Allocations before{count.load(), bytes.load()};
  function();
  return {count.load() - before.count, bytes.load() - before.bytes};
}

}  // namespace sluice::test

void* operator new(std::size_t bytes) {
  using namespace sluice::test;
  allocations_detail::count.fetch_add(1, std::memory_order_relaxed);
  allocations_detail::bytes.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort() uses this operator. Without it, operator delete would pass foreign memory to
// free().
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
