// Activation memory that is reused across microbatches, so that its pages are mapped once.
//
// Each thread has a pool. A block may be released on any thread and returns to the pool it came
// from, or is freed if that pool's thread has ended. Blocks come from LibTorch's allocator, so
// memory ledgers count them even while free.
//
// Per size, a pool keeps at most as many blocks as were in use at once. All free blocks together
// never exceed the peak in use; least recently used sizes are freed first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace sluice::ops {

class KeptPool;

// Uninitialized floats, or nothing.
class KeptBlock {
 public:
  KeptBlock() = default;
  ~KeptBlock() { reset(); }
  KeptBlock(KeptBlock&& other) noexcept;
  KeptBlock& operator=(KeptBlock&& other) noexcept;

  float* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }
  void reset();

 private:
  friend KeptBlock take_memory(std::int64_t floats);
  std::shared_ptr<KeptPool> pool_;
  at::Tensor memory_;
  float* data_ = nullptr;
};

// Throws what LibTorch's allocator throws.
KeptBlock take_memory(std::int64_t floats);
// Frees unused blocks. For use before sizes change.
void drop_free_memory();

}  // namespace sluice::ops
