// Several tensors as one message: which of them are there, and their bytes.
// Thread-safety: pure functions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice {

// Size of one message: large enough to be worth its way, small enough not to be a second copy of
// all.
inline constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

struct PartMeta {
  std::int64_t numel = 0;
  at::ScalarType dtype = at::kFloat;
};

// parts: flat, or undefined. Bytes on their device, which is `device`; undefined where there are no
// parts. In `memory`, an earlier message that nobody needs any more, where that is large enough:
// its parts must be none of them. Else in new memory.
at::Tensor pack_parts(const std::vector<at::Tensor>& parts, at::Device device,
                      const at::Tensor& memory = {});
// Views of `packed`, flat; undefined where they were. Throws Error(kInternal) for a message of
// other parts.
std::vector<at::Tensor> unpack_parts(const at::Tensor& packed, const std::vector<PartMeta>& parts);

}  // namespace sluice
