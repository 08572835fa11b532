// Keeps the first failure of the local ranks. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "sluice/parts/transport.h"

namespace sluice {

class FirstFailure {
 public:
  bool set(const Failure& failure) noexcept {
    const std::lock_guard lock(mutex_);
    if (happened()) return false;
    failure_ = failure;
    happened_.store(true, std::memory_order_release);
    return true;
  }
  bool happened() const { return happened_.load(std::memory_order_acquire); }
  std::optional<Failure> get() const {
    if (!happened()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void throw_if_happened() const {
    if (const std::optional<Failure> failure = get())
      throw Error(failure->kind, {.what = failure->message});
  }

 private:
  std::atomic<bool> happened_{false};
  mutable std::mutex mutex_;
  Failure failure_;
};

}  // namespace sluice
