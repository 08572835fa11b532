// The dispatch key under which this library's kernels sit above autograd and autocast, on the few
// operators that it intercepts (keyed_stream.h, casted_weights.h). All other operators fall through
// it at no cost.
//
// It is torch's TESTING_ONLY_GenericMode: nothing but torch's own C++ tests uses it, and every
// other key that a thread may include by itself has a meaning of its own.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace sluice {

constexpr c10::DispatchKey kInterceptionKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelowInterception(c10::DispatchKeySet::FULL_AFTER, kInterceptionKey);

}  // namespace sluice
