#include "ops/kept_memory.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/large_pages.h"

namespace sluice::ops {

class KeptPool {
 public:
  at::Tensor take(std::int64_t floats) {
    const std::lock_guard lock(mutex_);
    Size& size = sizes_[floats];
    size.last_take = ++takes_;
    at::Tensor memory;
    if (!size.free.empty()) {
      memory = std::move(size.free.back());
      size.free.pop_back();
      free_ -= floats;
    } else {
      while (free_ > most_in_use_) drop_oldest();
      memory = allocate(floats);
    }
    in_use_ += floats;
    most_in_use_ = std::max(most_in_use_, in_use_);
    return memory;
  }

  void give_back(at::Tensor memory) {
    const std::lock_guard lock(mutex_);
    in_use_ -= memory.numel();
    const std::int64_t floats = memory.numel();
    if (closed_) return;
    try {
      sizes_[floats].free.push_back(std::move(memory));
      free_ += floats;
    } catch (const std::bad_alloc&) {
      // The pool cannot store the memory, so it is freed.
    }
  }

  void drop_free() {
    const std::lock_guard lock(mutex_);
    free_ = 0;
    sizes_.clear();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    free_ = 0;
    sizes_.clear();
  }

 private:
  struct Size {
    std::int64_t last_take = 0;
    std::vector<at::Tensor> free;
  };

  // If memory runs out, frees the pool's unused blocks and tries again.
  at::Tensor allocate(std::int64_t floats) {
    const auto memory_of = [floats] {
      at::Tensor memory = at::empty({floats}, at::TensorOptions(at::kFloat));
      want_large_pages(memory.mutable_data_ptr(), memory.nbytes());
      return memory;
    };
    if (free_ == 0) return memory_of();
    try {
      return memory_of();
    } catch (const c10::Error&) {
    } catch (const std::bad_alloc&) {
    }
    while (free_ > 0) drop_oldest();
    return memory_of();
  }

  void drop_oldest() {
    auto oldest = sizes_.end();
    for (auto size = sizes_.begin(); size != sizes_.end(); ++size) {
      if (size->second.free.empty()) continue;
      if (oldest == sizes_.end() || size->second.last_take < oldest->second.last_take)
        oldest = size;
    }
    free_ -= oldest->first * static_cast<std::int64_t>(oldest->second.free.size());
    sizes_.erase(oldest);
  }

  std::mutex mutex_;
  std::map<std::int64_t, Size> sizes_;
  std::int64_t takes_ = 0;
  std::int64_t in_use_ = 0, most_in_use_ = 0, free_ = 0;  // in floats
  bool closed_ = false;
};

namespace {

struct ThreadPool {
  std::shared_ptr<KeptPool> pool = std::make_shared<KeptPool>();
  ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { pool->close(); }
};

const std::shared_ptr<KeptPool>& pool_of_thread() {
  thread_local const ThreadPool of_thread;
  return of_thread.pool;
}

}  // namespace

KeptBlock::KeptBlock(KeptBlock&& other) noexcept
    : pool_(std::move(other.pool_)),
      memory_(std::move(other.memory_)),
      data_(std::exchange(other.data_, nullptr)) {
  other.memory_.reset();
}

KeptBlock& KeptBlock::operator=(KeptBlock&& other) noexcept {
  if (this == &other) return *this;
  reset();
  pool_ = std::move(other.pool_);
  memory_ = std::move(other.memory_);
  other.memory_.reset();
  data_ = std::exchange(other.data_, nullptr);
  return *this;
}

void KeptBlock::reset() {
  if (pool_ && memory_.defined()) pool_->give_back(std::move(memory_));
  memory_.reset();
  pool_.reset();
  data_ = nullptr;
}

void drop_free_memory() { pool_of_thread()->drop_free(); }

KeptBlock take_memory(std::int64_t floats) {
  const std::shared_ptr<KeptPool>& pool = pool_of_thread();
  KeptBlock block;
  block.memory_ = pool->take(floats);
  block.pool_ = pool;
  block.data_ = block.memory_.mutable_data_ptr<float>();
  return block;
}

}  // namespace sluice::ops
