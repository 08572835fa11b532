#include "optim/state_memory.h"

#include <ATen/Functions.h>

#include <cstdint>

#include "base/large_pages.h"

namespace sluice {
namespace {

constexpr std::int64_t kCacheLine = 64;

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
