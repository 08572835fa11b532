// True if the test runs under AddressSanitizer or ThreadSanitizer: they reserve address space, so
// that a limit of it ends the program, and end it at a null pointer before its own handler does.
#pragma once

namespace sluice::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace sluice::test
