#include "comm/tensor_layout.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::int64_t kAlignment = 64;
// Limits tensors so that products with sizes do not overflow.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 36;
constexpr std::size_t kMaxDimensions = 64;

[[noreturn]] void refuse_layout(const std::string& what, const std::string& where) {
  throw Error(ErrorKind::kPeer, {.what = "a message header is invalid: " + what, .where = where});
}

// Returns the largest int64 if the product exceeds kMaxBytes. Precondition: a, b >= 0.
std::int64_t bounded_product(std::int64_t a, std::int64_t b) {
  if (a != 0 && b > kMaxBytes / a) return std::numeric_limits<std::int64_t>::max();
  return a * b;
}

}  // namespace

TensorLayout::TensorLayout(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  if (tensor.layout() != at::kStrided || tensor.is_quantized()) {
    throw Error(ErrorKind::kInternal,
                {.what = "a tensor that is not strided memory cannot be sent to another process",
                 .remedy = "let layers exchange dense tensors"});
  }
  defined_ = true;
  requires_grad_ = tensor.requires_grad();
  dtype_ = tensor.scalar_type();
  device_ = tensor.device();
  sizes_ = tensor.sizes().vec();
  strides_ = tensor.strides().vec();
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  const auto element = static_cast<std::uintptr_t>(tensor.element_size());
  if (address % element == 0) alignment_ = static_cast<std::int64_t>(address % kAlignment);
  derive();
  if (extent_ > kMaxBytes / static_cast<std::int64_t>(element)) {
    throw Error(ErrorKind::kInternal,
                {.what = "a tensor that spans more than " + human_bytes(kMaxBytes) +
                         " cannot be sent to another process"});
  }
}

void TensorLayout::derive() {
  distinct_sizes_ = sizes_;
  extent_ = num_distinct_ = 1;
  std::vector<std::size_t> by_stride;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (strides_[i] == 0 && sizes_[i] > 1) distinct_sizes_[i] = 1;
    num_distinct_ = bounded_product(distinct_sizes_[i], num_distinct_);
    if (distinct_sizes_[i] > 1) by_stride.push_back(i);
  }
  if (num_distinct_ == 0) {
    extent_ = 0;
    packed_ = false;
    return;
  }
  std::sort(by_stride.begin(), by_stride.end(),
            [&](std::size_t a, std::size_t b) { return strides_[a] < strides_[b]; });
  bool overlaps = false;
  for (const std::size_t i : by_stride) {
    overlaps = overlaps || strides_[i] < extent_;
    const std::int64_t span = bounded_product(distinct_sizes_[i] - 1, strides_[i]);
    extent_ = span > kMaxBytes || extent_ > kMaxBytes ? std::numeric_limits<std::int64_t>::max()
                                                      : extent_ + span;
  }
  // A tensor that overlaps itself cannot be written element by element, so send it unpacked.
  packed_ = !overlaps && extent_ > num_distinct_;
}

void TensorLayout::write(Packer& writer) const {
  writer.add(defined_);
  if (!defined_) return;
  writer.add(static_cast<int>(dtype_))
      .add(static_cast<int>(device_.type()))
      .add(static_cast<int>(device_.index()))
      .add(requires_grad_)
      .add(alignment_)
      .add(sizes_)
      .add(strides_);
}

TensorLayout TensorLayout::read(Unpacker& reader, const std::string& where) {
  TensorLayout layout;
  layout.defined_ = reader.take<bool>();
  if (!layout.defined_) return layout;
  const int dtype = reader.take<int>();
  if (dtype < 0 || dtype >= static_cast<int>(at::ScalarType::Undefined))
    refuse_layout("dtype number " + std::to_string(dtype), where);
  layout.dtype_ = static_cast<at::ScalarType>(dtype);
  if (at::isQIntType(layout.dtype_) || at::isBitsType(layout.dtype_))
    refuse_layout("dtype number " + std::to_string(dtype), where);
  const int device = reader.take<int>(), index = reader.take<int>();
  if ((device != static_cast<int>(at::kCPU) && device != static_cast<int>(at::kCUDA)) ||
      index < -1 || index > 127) {
    refuse_layout(formatted("device {}:{}", device, index), where);
  }
  layout.device_ = device == static_cast<int>(at::kCPU)
                       ? at::Device(at::kCPU)
                       : at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
  layout.requires_grad_ = reader.take<bool>();
  if (layout.requires_grad_ && !at::isFloatingType(layout.dtype_) &&
      !at::isComplexType(layout.dtype_)) {
    refuse_layout("a gradient of integers", where);
  }
  layout.alignment_ = reader.take<std::int64_t>();
  const auto element = static_cast<std::int64_t>(c10::elementSize(layout.dtype_));
  if (layout.alignment_ < 0 || layout.alignment_ >= kAlignment || layout.alignment_ % element != 0)
    refuse_layout("alignment " + std::to_string(layout.alignment_), where);
  layout.sizes_ = reader.take<std::vector<std::int64_t>>();
  layout.strides_ = reader.take<std::vector<std::int64_t>>();
  const bool wrong = layout.sizes_.size() != layout.strides_.size() ||
                     layout.sizes_.size() > kMaxDimensions ||
                     std::any_of(layout.sizes_.begin(), layout.sizes_.end(),
                                 [](std::int64_t size) { return size < 0; }) ||
                     std::any_of(layout.strides_.begin(), layout.strides_.end(),
                                 [](std::int64_t stride) { return stride < 0; });
  if (wrong) {
    refuse_layout(formatted("sizes {} with strides {}", shape_text(layout.sizes_),
                            shape_text(layout.strides_)),
                  where);
  }
  layout.derive();
  std::int64_t numel = 1;  // including repeated elements
  for (const std::int64_t size : layout.sizes_) numel = bounded_product(size, numel);
  if (layout.extent_ > kMaxBytes / element || layout.num_distinct_ > kMaxBytes / element ||
      numel == std::numeric_limits<std::int64_t>::max()) {
    refuse_layout(formatted("a tensor of {} that spans more than {}", shape_text(layout.sizes_),
                            human_bytes(kMaxBytes)),
                  where);
  }
  return layout;
}

std::int64_t TensorLayout::num_bytes() const {
  if (!defined_) return 0;
  return (packed_ ? num_distinct_ : extent_) * static_cast<std::int64_t>(c10::elementSize(dtype_));
}

at::Tensor TensorLayout::flat(const at::Tensor& tensor) const {
  const at::NoGradGuard no_grad;
  at::Tensor flat = tensor.detach();
  if (packed_) {
    flat = flat.as_strided(distinct_sizes_, strides_).contiguous();
  } else {
    flat = flat.as_strided({extent_}, {1});
  }
  return flat.resolve_conj().resolve_neg();
}

at::Tensor TensorLayout::flatten(const at::Tensor& tensor, Ready& arrived) const {
  at::Tensor bytes = flat(tensor);
  if (!bytes.device().is_cpu()) bytes = to_host(bytes, arrived);
  return at::from_blob(
      const_cast<void*>(bytes.const_data_ptr()), {num_bytes()}, [bytes](void*) {}, at::kByte);
}

at::Tensor TensorLayout::allocate(at::Device device) const {
  const bool pinned = device.is_cpu() && !device_.is_cpu() && at::hasCUDA();
  const std::int64_t room = (num_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  return at::empty({alignment_ + room},
                   at::TensorOptions(at::kByte).device(device).pinned_memory(pinned))
      .narrow(0, alignment_, room);
}

at::Tensor TensorLayout::restore(const at::Tensor& arrived, at::Device device) const {
  const at::NoGradGuard no_grad;
  const auto element = static_cast<std::int64_t>(c10::elementSize(dtype_));
  const at::TensorOptions options = at::TensorOptions(dtype_).device(arrived.device());
  at::Tensor memory = arrived;
  if (packed_) {
    at::Tensor spread = at::empty({alignment_ + extent_ * element},
                                  at::TensorOptions(at::kByte).device(arrived.device()))
                            .narrow(0, alignment_, extent_ * element);
    const at::Tensor packed =
        at::empty({0}, options).set_(arrived.storage(), alignment_ / element, {num_distinct_}, {1});
    at::empty({0}, options)
        .set_(spread.storage(), alignment_ / element, distinct_sizes_, strides_)
        .copy_(packed.view(distinct_sizes_));
    memory = spread;
  }
  if (!device_.is_cpu() && !device.is_cpu() && arrived.is_cpu()) {
    const std::int64_t offset = alignment_ / element;
    const at::Tensor staged = at::empty({0}, dtype_).set_(memory.storage(), offset, {extent_}, {1});
    at::Tensor there =
        at::empty({offset + extent_}, staged.options().device(device)).narrow(0, offset, extent_);
    there.copy_(staged);
    at::Tensor tensor = there.as_strided(sizes_, strides_);
    return tensor.set_requires_grad(requires_grad_);
  }
  at::Tensor tensor =
      at::empty({0}, options).set_(memory.storage(), alignment_ / element, sizes_, strides_);
  return tensor.set_requires_grad(requires_grad_);
}

}  // namespace sluice
