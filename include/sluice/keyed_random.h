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

// Within this scope every operator with an optional generator argument (dropout, rand, bernoulli,
// attention dropout, ...) that is called without one draws from the stream of this key, on this
// thread, in unchanged user code. CPU and CUDA. Scopes nest: the inner key holds.
class KeyedRandomScope {
 public:
  KeyedRandomScope(std::uint64_t seed, std::int64_t step, std::string_view layer, std::int64_t microbatch);
  ~KeyedRandomScope();
  KeyedRandomScope(const KeyedRandomScope&) = delete;
  KeyedRandomScope& operator=(const KeyedRandomScope&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Fills a floating-point tensor with normal(mean, std), element i being a function of
// (seed, name, offset + i) alone, so any slice can be drawn by itself. In place, no autograd.
void keyed_normal_(at::Tensor& tensor, std::uint64_t seed, std::string_view name, double mean, double std,
                   std::int64_t offset = 0);

}  // namespace sluice
