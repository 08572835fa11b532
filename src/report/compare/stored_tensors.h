// Tensors of safetensors files, by step and name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace sluice {

struct StoredTensor {
  std::string dtype;  // "BF16"
  std::vector<std::int64_t> shape;
  std::string file;
  std::uint64_t begin = 0, end = 0;  // bytes in the file

  std::string form() const;  // "BF16 [2, 3]"
};

// Orders digits by the number that they form: "layers.2" before "layers.10".
struct NaturalOrder {
  bool operator()(std::string_view a, std::string_view b) const;
};

using TensorTable = std::map<std::string, StoredTensor, NaturalOrder>;
using TensorSteps = std::map<std::int64_t, TensorTable>;

// Returns the number after "step", "iter", "checkpoint" or "epoch", or a name that is a number: 3
// for "grads-step-3-rank-0.safetensors" and "iter_0000003". Returns -1 if there is none.
std::int64_t step_of_name(std::string_view name);

// `path`: a file, a folder of safetensors files, or a folder of such folders, one a step. Shards
// ("-00001-of-00002") belong to one step. Returns an empty map if there is no such file. Throws
// Error(kInput) for a damaged file and for a tensor that a step has twice.
TensorSteps find_tensors(const std::string& path);

// Keeps files open, and reads parts of their tensors.
class TensorFiles {
 public:
  // `offset` and `count` are bytes in the tensor.
  void read(const StoredTensor& tensor, std::uint64_t offset, std::size_t count, char* bytes);

 private:
  std::map<std::string, File> files_;
};

}  // namespace sluice
