#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice {

// Size of one message: large enough to use bandwidth, small enough to avoid a second copy of
// everything.
inline constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

struct PartMeta {
  std::int64_t numel = 0;
  at::ScalarType dtype = at::kFloat;
};

// parts: flat tensors on `device`, or undefined. Returns the message as bytes, undefined without
// parts. memory: an unused earlier message without `parts`, overwritten if large enough.
at::Tensor pack_parts(const std::vector<at::Tensor>& parts, at::Device device,
                      const at::Tensor& memory = {});
// Returns flat views of `packed`, undefined where parts were undefined. Throws Error(kInternal) if
// the message has other parts.
std::vector<at::Tensor> unpack_parts(const at::Tensor& packed, const std::vector<PartMeta>& parts);

}  // namespace sluice
