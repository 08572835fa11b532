#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/checkpoint.h"
#include "sluice/parts/saver.h"

namespace sluice {

// A file exceeds max_bytes only if it has a single tensor.
std::vector<NamedTensors> split_into_files(const NamedTensors& tensors, std::uint64_t max_bytes);

// Writes and flushes the file. Throws Error(kCheckpoint).
std::vector<SavedTensor> write_tensor_file(const std::string& directory, const std::string& file,
                                           const NamedTensors& tensors);

// Counts infinite and NaN elements. Returns 0 if the dtype is not a plain float.
std::int64_t num_not_finite(const at::Tensor& tensor);

std::string tensor_hash(const at::Tensor& tensor);

}  // namespace sluice
