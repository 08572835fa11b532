#include "train/packed_parts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string>

#include "sluice/error.h"

namespace sluice {
namespace {

// What a part begins at a multiple of: more than any element's size, and a cache line.
constexpr std::int64_t kAlignment = 64;

std::int64_t padded(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

at::Tensor pack_parts(const std::vector<at::Tensor>& parts, at::Device device) {
  if (parts.empty()) return {};
  const at::NoGradGuard no_grad;
  const auto num_parts = static_cast<std::int64_t>(parts.size());
  std::int64_t bytes = padded(num_parts);
  for (const at::Tensor& part : parts) {
    if (part.defined()) bytes += padded(static_cast<std::int64_t>(part.nbytes()));
  }
  at::Tensor is_there = at::empty({num_parts}, at::kByte);
  at::Tensor packed = at::empty({bytes}, at::TensorOptions(device).dtype(at::kByte));
  std::int64_t at = padded(num_parts);
  for (std::int64_t i = 0; i < num_parts; ++i) {
    const at::Tensor& part = parts[static_cast<std::size_t>(i)];
    is_there.mutable_data_ptr<std::uint8_t>()[i] = part.defined() ? 1 : 0;
    if (!part.defined()) continue;
    const auto size = static_cast<std::int64_t>(part.nbytes());
    packed.narrow(0, at, size).view(part.scalar_type()).copy_(part);
    at += padded(size);
  }
  packed.narrow(0, 0, num_parts).copy_(is_there);
  return packed;
}

std::vector<at::Tensor> unpack_parts(const at::Tensor& packed, const std::vector<PartMeta>& parts) {
  std::vector<at::Tensor> tensors(parts.size());
  if (parts.empty() && !packed.defined()) return tensors;
  const auto num_parts = static_cast<std::int64_t>(parts.size());
  const auto require = [&](bool fits) {
    if (fits) return;
    throw Error(ErrorKind::kInternal,
                {.what = "a message of " + std::to_string(packed.defined() ? packed.numel() : 0) +
                         " bytes does not hold the " + std::to_string(num_parts) +
                         " parts that are expected"});
  };
  require(packed.defined() && packed.scalar_type() == at::kByte && packed.dim() == 1 &&
          packed.numel() >= padded(num_parts));
  const at::Tensor is_there = packed.narrow(0, 0, num_parts).cpu();
  std::int64_t at = padded(num_parts);
  for (std::int64_t i = 0; i < num_parts; ++i) {
    if (is_there.const_data_ptr<std::uint8_t>()[i] == 0) continue;
    const PartMeta& part = parts[static_cast<std::size_t>(i)];
    const std::int64_t size = part.numel * static_cast<std::int64_t>(c10::elementSize(part.dtype));
    require(at + size <= packed.numel());
    tensors[static_cast<std::size_t>(i)] = packed.narrow(0, at, size).view(part.dtype);
    at += padded(size);
  }
  require(at == packed.numel());
  return tensors;
}

}  // namespace sluice
