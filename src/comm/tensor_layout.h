// The layout of a tensor in memory, so that it can be sent as flat bytes and lie in the same way
// where it arrives: kernels choose their order of work by strides and alignment, and bits must not
// depend on the link.
//
// Owns: the layout, its check, the way to flat bytes and back. Does not own: the bytes' way.
//
// Invariants:
//  1. What restore() makes has the sizes, strides, dtype and alignment (modulo 64 bytes) of what
//     was flattened, and shares no memory with anything else.
//  2. A dimension of stride 0 is sent once; a dense tensor, however its dimensions are permuted, as
//     it lies; one with gaps is packed.
//  3. Nothing is allocated for a layout that read() refuses.
// Thread-safety: values.
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
  TensorLayout() = default;  // of an undefined tensor
  // Throws Error(kInternal) for a tensor that is not strided memory.
  explicit TensorLayout(const at::Tensor& tensor);

  void write(Packer& writer) const;
  // Throws Error(kPeer), naming `where`, for what no tensor of ours has.
  static TensorLayout read(Unpacker& reader, const std::string& where);

  bool defined() const { return defined_; }
  std::int64_t num_bytes() const;  // that travel

  // At the sender the tensor was on a device.
  bool on_device() const { return defined_ && !device_.is_cpu(); }

  // The bytes of `tensor`, whose layout this is, one after another, where it is: on the current
  // stream of its device. Shares the tensor's memory where it can.
  at::Tensor flat(const at::Tensor& tensor) const;
  // The bytes of `tensor`, whose layout this is, one after another, on the host. Shares the
  // tensor's memory where it can. Those of a device are there when `arrived`, which is added to,
  // has happened.
  at::Tensor flatten(const at::Tensor& tensor, Ready& arrived) const;
  // Memory into which the bytes arrive, num_bytes() from its start on; it has room for the next
  // multiple of 64. On `device`, or the host.
  at::Tensor allocate(at::Device device = at::kCPU) const;
  // device: where what was on a device at its sender goes, if it did not arrive there.
  at::Tensor restore(const at::Tensor& arrived, at::Device device) const;

 private:
  void derive();

  bool defined_ = false;
  bool requires_grad_ = false;
  at::ScalarType dtype_ = at::kFloat;
  at::Device device_ = at::kCPU;
  std::int64_t alignment_ = 0;  // of the first element's address, modulo 64
  std::vector<std::int64_t> sizes_, strides_;

  // From sizes and strides. Elements of memory from the first to the last; whether that has gaps;
  // elements that differ.
  std::int64_t extent_ = 0;
  bool packed_ = false;
  std::vector<std::int64_t> distinct_sizes_;  // 1 where the stride is 0
  std::int64_t num_distinct_ = 0;
};

}  // namespace sluice
