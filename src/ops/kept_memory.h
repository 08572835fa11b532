// Memory of activations that is kept from microbatch to microbatch, so that its pages are mapped
// once.
//
// Owns: blocks of floats of this thread, free ones by their size.
// Does not own: what is in them. Blocks are tensors of LibTorch's allocator, so that a ledger of
// memory counts them, free ones too.
//
// Invariants:
//  1. A block comes back to the thread that took it, whoever lets it go; when that thread has ended
//     it is freed.
//  2. Of each size at most what was in use at once is kept, and of all together what was in use at
//     once, at most, beside what is in use: sizes that nobody has taken for the longest time are
//     let go first.
// Thread-safety: blocks may be let go on any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace sluice::ops {

class KeptPool;

// Some floats, or none; their numbers mean nothing at first.
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

// floats: at least 0. Throws what LibTorch's allocator throws.
KeptBlock take_memory(std::int64_t floats);
// Frees the blocks of this thread that nobody uses: after passes of sizes that do not come again.
void drop_free_memory();

}  // namespace sluice::ops
