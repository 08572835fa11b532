// Memory of a tensor that comes and goes while graphs and modules hold the tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstddef>

namespace sluice {

// The old contents are lost. Precondition: no other tensor's elements lie in its storage.
inline void resize_memory(const at::Tensor& tensor, std::size_t bytes) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(c10::GetAllocator(tensor.device().type())->allocate(bytes));
  storage.set_nbytes(bytes);
}

// For all its elements, with no numbers in them. Precondition: dense, from the start of its
// storage on.
inline void take_memory(const at::Tensor& tensor) {
  resize_memory(tensor, static_cast<std::size_t>(tensor.numel()) * tensor.element_size());
}

}  // namespace sluice
