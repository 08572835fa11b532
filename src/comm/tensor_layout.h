// The memory layout of a tensor. A tensor is sent as flat bytes and restored with the same strides
// and alignment (modulo 64 bytes), because kernels choose their order of additions by these.
// Neither gaps between elements nor repetitions (stride 0) are sent.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/packer.h"
#include "device/ready.h"

namespace sluice {

class TensorLayout {
 public:
  TensorLayout() = default;
  explicit TensorLayout(const at::Tensor& tensor);

  void write(Packer& writer) const;
  static TensorLayout read(Unpacker& reader, const std::string& where);

  bool defined() const { return defined_; }
  std::int64_t num_bytes() const;

  // Whether the tensor was on a device at the sender.
  bool on_device() const { return defined_ && !device_.is_cpu(); }

  // Returns the tensor's bytes on its device, on the current stream. They may share the tensor's
  // memory.
  at::Tensor flat(const at::Tensor& tensor) const;
  // Returns the tensor's bytes on the host, complete when `arrived` has happened. They may share
  // the tensor's memory.
  at::Tensor flatten(const at::Tensor& tensor, Ready& arrived) const;
  // Allocates num_bytes(), rounded up to a multiple of 64.
  at::Tensor allocate(at::Device device = at::kCPU) const;
  // Makes the tensor from its bytes, and may use their memory. `device`: for tensors that were on a
  // device at the sender.
  at::Tensor restore(const at::Tensor& arrived, at::Device device) const;

 private:
  void derive();

  bool defined_ = false;
  bool requires_grad_ = false;
  at::ScalarType dtype_ = at::kFloat;
  at::Device device_ = at::kCPU;
  std::int64_t alignment_ = 0;
  std::vector<std::int64_t> sizes_, strides_;

  // extent_: elements from the first to the last in memory. packed_: gaps are not sent.
  std::int64_t extent_ = 0;
  bool packed_ = false;
  std::vector<std::int64_t> distinct_sizes_;  // sizes, but 1 for stride 0
  std::int64_t num_distinct_ = 0;
};

}  // namespace sluice
