// A pool of activation memory that is reused from microbatch to microbatch, so that its pages are
// mapped only once.
//
// Each thread has a pool. A block may be released on any thread and returns to the pool of the
// thread that took it. If that thread has ended, the block is freed. Blocks come from LibTorch's
// allocator, so memory ledgers count them, including free ones.
//
// The pool does not grow without bound. Per size, it keeps at most as many blocks as were ever in
// use at once. Over all sizes, free blocks take at most the peak of memory in use. The least
// recently used sizes are freed first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace sluice::ops {

class KeptPool;

// Uninitialized floats, or no memory at all.
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

// `floats` must not be negative. Throws what LibTorch's allocator throws.
KeptBlock take_memory(std::int64_t floats);
// Frees the unused blocks of this thread's pool. Call it when their sizes will not be needed again.
void drop_free_memory();

}  // namespace sluice::ops
