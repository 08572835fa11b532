// Activation memory that is reused across microbatches, so that its pages are mapped once.
//
// Each thread has a pool of blocks. Any thread may release a block, which returns to its pool if
// that still exists. Blocks come from LibTorch's allocator, so memory ledgers count even free
// blocks.
//
// A pool keeps at most as many blocks of a size as were in use at once. Free blocks together do not
// exceed the peak in use. The least recently used sizes are freed first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace sluice::ops {

class KeptPool;

// A block of uninitialized floats, possibly empty.
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

KeptBlock take_memory(std::int64_t floats);
void drop_free_memory();

}  // namespace sluice::ops
