#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstddef>

namespace sluice {

// Reallocates the storage and loses its contents. No other tensor may have elements there.
inline void resize_memory(const at::Tensor& tensor, std::size_t bytes) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(c10::GetAllocator(tensor.device().type())->allocate(bytes));
  storage.set_nbytes(bytes);
}

// Allocates uninitialized memory for all elements. The tensor must be dense and begin its storage.
inline void take_memory(const at::Tensor& tensor) {
  resize_memory(tensor, static_cast<std::size_t>(tensor.numel()) * tensor.element_size());
}

}  // namespace sluice
