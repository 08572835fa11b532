#include "optim/state_memory.h"

#include <ATen/Functions.h>
#include <sys/mman.h>

#include <cstdint>

namespace sluice {
namespace {

constexpr std::uintptr_t kLargePage = std::uintptr_t{2} << 20;
constexpr std::int64_t kCacheLine = 64;

// Before anything is written: pages come as they are first touched. What lies in no whole large
// page stays on small ones.
void want_large_pages(void* begin, std::size_t size) {
  const auto first = (reinterpret_cast<std::uintptr_t>(begin) + kLargePage - 1) & ~(kLargePage - 1);
  const auto last = (reinterpret_cast<std::uintptr_t>(begin) + size) & ~(kLargePage - 1);
  // Advice: a system without it keeps small pages.
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace

std::vector<at::Tensor> zeros_in_one_buffer(const std::vector<at::Tensor>& like,
                                            at::ScalarType dtype) {
  const auto line = kCacheLine / static_cast<std::int64_t>(c10::elementSize(dtype));
  std::vector<std::int64_t> begins;
  std::int64_t size = 0;
  for (const at::Tensor& tensor : like) {
    begins.push_back(size);
    size += (tensor.numel() + line - 1) / line * line;
  }
  at::Tensor buffer = at::empty({size}, at::TensorOptions().dtype(dtype));
  if (size > 0) want_large_pages(buffer.mutable_data_ptr(), buffer.nbytes());
  buffer.zero_();
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < like.size(); ++i) {
    tensors.push_back(at::empty({0}, buffer.options())
                          .set_(buffer.storage(), begins[i], like[i].sizes(), like[i].strides()));
  }
  return tensors;
}

}  // namespace sluice
