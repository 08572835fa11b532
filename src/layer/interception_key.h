// The dispatch key of our kernels that run before autograd and autocast. Operators for which we
// have no kernel skip the key at no cost. The key is TESTING_ONLY_GenericMode from torch's C++
// tests, because torch uses all other keys that threads can include.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace sluice {

constexpr c10::DispatchKey kInterceptionKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelowInterception(c10::DispatchKeySet::FULL_AFTER, kInterceptionKey);

}  // namespace sluice
