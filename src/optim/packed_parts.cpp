#include "optim/packed_parts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string>

#include "base/format.h"
#include "device/transfers.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Alignment of each packed tensor: a cache line, and more than any element size.
constexpr std::int64_t kAlignment = 64;

std::int64_t padded(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The header has each tensor's size in bytes. kNotThere: undefined tensor. kNoPart: padding.
constexpr std::int64_t kNotThere = -1, kNoPart = -2;
std::int64_t header_bytes(std::size_t num_parts) {
  return padded(static_cast<std::int64_t>(num_parts * sizeof(std::int64_t)));
}
at::Tensor header_of(const at::Tensor& packed, std::size_t num_parts) {
  return packed.narrow(0, 0, header_bytes(num_parts)).view(at::kLong);
}

}  // namespace

at::Tensor pack_parts(const std::vector<at::Tensor>& parts, at::Device device,
                      const at::Tensor& memory) {
  if (parts.empty()) return {};
  const at::NoGradGuard no_grad;
  std::int64_t at = header_bytes(parts.size());
  at::Tensor sizes = at::full({at / static_cast<std::int64_t>(sizeof(std::int64_t))}, kNoPart);
  std::int64_t* size = sizes.mutable_data_ptr<std::int64_t>();
  std::int64_t bytes = at;
  for (const at::Tensor& part : parts) {
    *size = part.defined() ? static_cast<std::int64_t>(part.nbytes()) : kNotThere;
    if (part.defined()) bytes += padded(*size);
    ++size;
  }
  at::Tensor packed = memory.defined() && memory.numel() >= bytes
                          ? memory.narrow(0, 0, bytes)
                          : at::empty({bytes}, at::TensorOptions(device).dtype(at::kByte));
  header_of(packed, parts.size()).copy_(to_device(sizes, device));
  for (const at::Tensor& part : parts) {
    if (!part.defined()) continue;
    const auto own = static_cast<std::int64_t>(part.nbytes());
    packed.narrow(0, at, own).view(part.scalar_type()).copy_(part);
    at += padded(own);
  }
  return packed;
}

std::vector<at::Tensor> unpack_parts(const at::Tensor& packed, const std::vector<PartMeta>& parts) {
  std::vector<at::Tensor> tensors(parts.size());
  if (parts.empty() && !packed.defined()) return tensors;
  const auto require = [&](bool fits) {
    if (fits) return;
    throw Error(
        ErrorKind::kInternal,
        {.what = formatted("a message of {} bytes does not hold the {} parts that are expected",
                           packed.defined() ? packed.numel() : 0, parts.size())});
  };
  std::int64_t at = header_bytes(parts.size());
  require(packed.defined() && packed.scalar_type() == at::kByte && packed.dim() == 1 &&
          packed.numel() >= at);
  const at::Tensor sizes = header_of(packed, parts.size()).cpu();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t there = sizes.const_data_ptr<std::int64_t>()[i];
    if (there == kNotThere) continue;
    const PartMeta& part = parts[i];
    const std::int64_t size = part.numel * static_cast<std::int64_t>(c10::elementSize(part.dtype));
    require(there == size && at + size <= packed.numel());
    tensors[i] = packed.narrow(0, at, size).view(part.dtype);
    at += padded(size);
  }
  require(at == packed.numel());
  return tensors;
}

}  // namespace sluice
