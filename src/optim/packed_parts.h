#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice {

// Bytes of one message: enough to use the bandwidth, but little extra memory.
inline constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

struct PartMeta {
  std::int64_t numel = 0;
  at::ScalarType dtype = at::kFloat;
};

// Packs flat tensors, some of which may be undefined, into one byte tensor. Returns undefined if
// `parts` is empty. memory: an earlier message to overwrite.
at::Tensor pack_parts(const std::vector<at::Tensor>& parts, at::Device device,
                      const at::Tensor& memory = {});
// Unpacks a message into flat views, undefined where pack_parts() got undefined tensors. Throws
// Error(kInternal) if the message does not match `parts`.
std::vector<at::Tensor> unpack_parts(const at::Tensor& packed, const std::vector<PartMeta>& parts);

}  // namespace sluice
