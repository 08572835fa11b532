#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstddef>

namespace sluice {

// Reallocates the tensor's storage and loses the contents. No other tensor may have elements in the
// storage.
inline void resize_memory(const at::Tensor& tensor, std::size_t bytes) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(c10::GetAllocator(tensor.device().type())->allocate(bytes));
  storage.set_nbytes(bytes);
}

// Allocates uninitialized memory for all elements of the tensor. The tensor must be dense and begin
// at the start of its storage.
inline void take_memory(const at::Tensor& tensor) {
  resize_memory(tensor, static_cast<std::size_t>(tensor.numel()) * tensor.element_size());
}

}  // namespace sluice
