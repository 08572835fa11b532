// The dispatch key of our kernels, which run before autograd and autocast. We use
// TESTING_ONLY_GenericMode of torch's C++ tests, because torch uses all other keys that threads can
// include.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace sluice {

constexpr c10::DispatchKey kInterceptionKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelowInterception(c10::DispatchKeySet::FULL_AFTER, kInterceptionKey);

}  // namespace sluice
