#include "ops/kept_memory.h"

#include <ATen/ops/empty.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace sluice::ops {
namespace {

// Takes of other sizes after which a size that nobody took is let go.
constexpr std::int64_t kPatience = 4096;
constexpr std::uintptr_t kHugePage = std::uintptr_t{1} << 21;

// Whole 2 MiB pages inside the block, where it spans any.
void ask_for_huge_pages(const at::Tensor& memory) {
#ifdef MADV_HUGEPAGE
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.const_data_ptr());
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (begin + memory.nbytes()) / kHugePage * kHugePage;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#else
  (void)memory;
#endif
}

}  // namespace

class KeptPool {
 public:
  at::Tensor take(std::int64_t floats) {
    const std::lock_guard lock(mutex_);
    ++takes_;
    Size& size = sizes_[floats];
    size.last_take = takes_;
    if (!size.free.empty()) {
      at::Tensor memory = std::move(size.free.back());
      size.free.pop_back();
      return memory;
    }
    drop_forgotten();
    at::Tensor memory = at::empty({floats}, at::TensorOptions(at::kFloat));
    ask_for_huge_pages(memory);
    return memory;
  }

  void give_back(at::Tensor memory) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    sizes_[memory.numel()].free.push_back(std::move(memory));
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    sizes_.clear();
  }

 private:
  struct Size {
    std::int64_t last_take = 0;
    std::vector<at::Tensor> free;
  };

  void drop_forgotten() {
    std::erase_if(sizes_,
                  [&](const auto& size) { return size.second.last_take + kPatience < takes_; });
  }

  std::mutex mutex_;
  std::map<std::int64_t, Size> sizes_;
  std::int64_t takes_ = 0;
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

KeptBlock take_memory(std::int64_t floats) {
  thread_local const ThreadPool of_thread;
  KeptBlock block;
  block.memory_ = of_thread.pool->take(floats);
  block.pool_ = of_thread.pool;
  block.data_ = block.memory_.mutable_data_ptr<float>();
  return block;
}

}  // namespace sluice::ops
