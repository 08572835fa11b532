// Makes an operator draw from the generator `own` although it only supports a device's default
// generator, `shared`.
//
// Copies the state of `own` into `shared`. The destructor copies the advanced state back and
// restores `shared`. Other threads must not use `shared` meanwhile.
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
