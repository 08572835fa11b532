// The tensors of one rank as safetensors files, with the hash of each.
// Thread-safety: pure functions, but for writing files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/checkpoint.h"
#include "sluice/parts/saver.h"

namespace sluice {

// In their order, into files of at most max_bytes, unless a single tensor is larger.
std::vector<NamedTensors> split_into_files(const NamedTensors& tensors, std::uint64_t max_bytes);

// Writes directory/file, whole and flushed, and says what is where in it. Memory: one tensor that
// is not on the CPU already. Throws Error(kCheckpoint).
std::vector<SavedTensor> write_tensor_file(const std::string& directory, const std::string& file,
                                           const NamedTensors& tensors);

// Count of the numbers of a tensor that are infinite or NaN; 0 for types that are not plain floats.
std::int64_t num_not_finite(const at::Tensor& tensor);

// Hash of the bytes of a tensor in row-major order.
std::string tensor_hash(const at::Tensor& tensor);

}  // namespace sluice
