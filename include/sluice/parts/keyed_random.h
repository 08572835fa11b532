// Random numbers that do not depend on the layout: functions of (seed, step, layer, microbatch) in
// forward passes and of (seed, parameter name, element) for initial weights.
//
// Thread-safety: KeyedRandomScope is per thread; the rest are pure functions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace sluice {

// Within this scope every operator that would draw from the default generator (dropout, rand,
// bernoulli, attention dropout, ...) draws from the stream of this key instead, on this thread, in
// unchanged user code; a generator that the caller passes is respected. CPU and CUDA; each device
// has a stream of its own. Scopes nest: the inner key holds, then the outer stream goes on where
// it was. Costs well under a microsecond until something random is called. Not for another
// thread's work: a scope is left on the thread that entered it. Nothing is keyed in backward: a
// function of your own that computes its forward again there must save what it drew.
class KeyedRandomScope {
 public:
  KeyedRandomScope(std::uint64_t seed, std::int64_t step, std::string_view layer,
                   std::int64_t microbatch);
  ~KeyedRandomScope();
  KeyedRandomScope(const KeyedRandomScope&) = delete;
  KeyedRandomScope& operator=(const KeyedRandomScope&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Fills a floating-point tensor with normal(mean, std), element i (in row-major order) being a
// function of (seed, name, offset + i) alone, so any slice can be drawn by itself: the same bits on
// every machine and device, for every number of threads. float32 and float64 are rounded from one
// double; other types from the float32. In place, no autograd. Throws Error(kInternal) for other
// dtypes or a negative offset.
void keyed_normal_(at::Tensor& tensor, std::uint64_t seed, std::string_view name, double mean,
                   double std, std::int64_t offset = 0);

}  // namespace sluice
