// Lets an operator that can only draw from a device's default generator draw from another one.
//
// Owns: putting the state of `own` into `shared` and, at the end, the advanced state back into
// `own` and the old state back into `shared`.
// Does not own: the generators; keeping other threads off `shared` meanwhile.
// Thread-safety: one thread at a time for one `shared`.
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
