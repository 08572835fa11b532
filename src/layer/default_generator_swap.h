// Makes an operator that only draws from a device's default generator draw from another one.
//
// It copies the state of `own` into `shared`. At its end it copies the advanced state back to `own`
// and restores `shared`. The caller must keep other threads from using `shared` meanwhile.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <mutex>

namespace sluice {

class DefaultGeneratorSwap {
 public:
  DefaultGeneratorSwap(at::Generator own, at::Generator shared)
      : own_(std::move(own)), shared_(std::move(shared)) {
    const std::lock_guard<std::mutex> lock(shared_.mutex());
    saved_ = shared_.get_state();
    shared_.set_state(own_.get_state());
  }
  ~DefaultGeneratorSwap() {
    const std::lock_guard<std::mutex> lock(shared_.mutex());
    own_.set_state(shared_.get_state());
    shared_.set_state(saved_);
  }
  DefaultGeneratorSwap(const DefaultGeneratorSwap&) = delete;
  DefaultGeneratorSwap& operator=(const DefaultGeneratorSwap&) = delete;

 private:
  at::Generator own_, shared_;
  at::Tensor saved_;
};

}  // namespace sluice
