// The simulated devices run LibTorch's CPU kernels on the same memory.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>

#include "device/backend.h"
#include "device/machine.h"

namespace sluice::sim {
namespace {

constexpr c10::DeviceType kType = c10::kCUDA;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

bool is_ours(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kType;
}

at::Device device_number(int index) { return {kType, static_cast<c10::DeviceIndex>(index)}; }

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                 std::optional<bool> /*pin*/, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device.value_or(at::Device(kType)));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &device_allocator(), kKeys,
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                         std::optional<at::Device> device, std::optional<bool> /*pin*/) {
  const c10::DeviceGuard guard(device.value_or(at::Device(kType)));
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size),
                                           C10_AS_INTARRAYREF_SLOW(stride), &device_allocator(),
                                           kKeys, dtype.value_or(at::kFloat));
}

at::Tensor on_host(const at::Tensor& tensor) {
  if (!is_ours(tensor)) return tensor;
  void* const memory = tensor.storage().data() ? tensor.mutable_data_ptr() : nullptr;
  return at::from_blob(
      memory, tensor.sizes(), tensor.strides(), [tensor](void*) {},
      tensor.options().device(at::kCPU).requires_grad(false));
}

at::Tensor to_device(const at::Tensor& host, int device) {
  const c10::DeviceGuard guard(device_number(device));
  at::Tensor tensor = at::detail::empty_strided_generic(
      host.sizes(), host.strides(), &device_allocator(), kKeys, host.scalar_type());
  if (tensor.numel() > 0)
    std::memcpy(tensor.mutable_data_ptr(), host.const_data_ptr(), tensor.storage().nbytes());
  return tensor;
}

enum class Use { kRead, kWritten, kOut };

class Call {
 public:
  at::Tensor take(const at::Tensor& tensor, Use use) {
    if (!is_ours(tensor)) return tensor;
    if (device_ < 0) device_ = tensor.device().index();
    at::Tensor host = on_host(tensor);
    // The kernel may resize an output.
    if (use == Use::kOut) host = host.numel() == 0 ? at::empty_like(host) : host.clone();
    seen_.emplace_back(tensor, host);
    if (tensor.numel() > 0) touched_.emplace_back(tensor.const_data_ptr(), use != Use::kRead);
    return host;
  }
  c10::IValue take(const c10::IValue& value, Use use) {
    if (value.isTensor()) return take(value.toTensor(), use);
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(take(tensor, use));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional(take(*tensor, use)) : tensor);
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == kType) {
      const at::Device device = value.toDevice();
      if (device_ < 0) device_ = device.has_index() ? device.index() : here.device;
      return at::Device(at::kCPU);
    }
    return value;
  }
  int device() const { return device_ < 0 ? here.device : device_; }

  void launch(const std::string& name) {
    name_ = name;
    launch_ = Machine::get().launch(current_stream(device()));
    for (const auto& [memory, writes] : touched_)
      Machine::get().access(launch_, memory, writes, name);
  }

  at::Tensor give(const at::Tensor& result) {
    if (!result.defined() || !result.device().is_cpu()) return result;
    for (const auto& [given, host] : seen_) {
      if (!host.is_same(result)) continue;
      if (host.sizes() == given.sizes() && host.strides() == given.strides()) {
        if (host.const_data_ptr() != given.const_data_ptr()) on_host(given).copy_(host);
      } else {
        const at::Tensor moved = to_device(host.contiguous(), device());
        at::Tensor(given).set_(moved);
        Machine::get().access(launch_, given.const_data_ptr(), true, name_);
      }
      return given;
    }
    at::Tensor tensor = to_device(result, device());
    if (tensor.numel() > 0) Machine::get().access(launch_, tensor.const_data_ptr(), true, name_);
    return tensor;
  }
  c10::IValue give(const c10::IValue& value) {
    if (value.isTensor()) return give(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(give(tensor));
    return list;
  }

 private:
  int device_ = -1;
  std::vector<std::pair<at::Tensor, at::Tensor>> seen_;  // {device tensor, host tensor}
  std::vector<std::pair<const void*, bool>> touched_;    // {memory, whether it is written}
  Launch launch_;
  std::string name_;
};

// A thread of LibTorch's engine starts with the process's number of threads. Bits of CPU kernels
// depend on that number, so every thread here uses one.
void use_one_thread() {
  thread_local const bool done = [] {
    at::set_num_threads(1);
    return at::get_num_threads() == 1;
  }();
  TORCH_INTERNAL_ASSERT(done);
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  use_one_thread();
  const auto& schema = op.schema();
  const std::size_t num_arguments = schema.arguments().size();
  const std::size_t base = stack->size() - num_arguments;
  Call call;
  for (std::size_t i = 0; i < num_arguments; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const bool writes = argument.alias_info() && argument.alias_info()->isWrite();
    (*stack)[base + i] = call.take((*stack)[base + i], argument.is_out() ? Use::kOut
                                                       : writes          ? Use::kWritten
                                                                         : Use::kRead);
  }
  const auto lock = Machine::get().lock();
  Machine::get().count_operator();
  static const std::int64_t fails_at = number_in("SIMULATED_DEVICE_FAILS_AT");
  TORCH_CHECK(counts().operators < fails_at, "CUDA error: unspecified launch failure");
  call.launch(op.operator_name().name);
  op.callBoxed(stack);
  for (std::size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i)
    (*stack)[i] = call.give((*stack)[i]);
}

// Ordered like a CUDA copy. It runs on the current stream of the source's device. Between devices,
// that stream waits for the destination's stream, which then waits for the copy. The host waits if
// its memory is not pinned, and for blocking copies to the host.
at::Tensor& copy_(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (to.numel() == 0) return to;
  Machine& machine = Machine::get();
  const auto lock = machine.lock();
  const StreamName stream =
      current_stream(is_ours(from) ? from.device().index() : to.device().index());
  const bool crosses = is_ours(from) && is_ours(to) && from.device() != to.device();
  if (crosses) {
    const StreamName there = current_stream(to.device().index());
    machine.launch(there);
    machine.wait(stream, machine.clock_of(there));
  }
  const Launch launch = machine.launch(stream);
  if (is_ours(from)) machine.access(launch, from.const_data_ptr(), false, "copy");
  if (is_ours(to)) machine.access(launch, to.const_data_ptr(), true, "copy");
  if (crosses) machine.wait(current_stream(to.device().index()), machine.clock_of(stream));

  at::Tensor host_to = on_host(to);
  const at::Tensor host_from = on_host(from);
  if (!is_ours(to) && non_blocking && to.is_pinned()) {
    const at::Tensor value = host_from.to(host_to.scalar_type(), false, /*copy=*/true);
    std::memset(host_to.mutable_data_ptr(), kPoison, host_to.numel() * host_to.element_size());
    machine.when_done(launch, [host_to, value]() mutable { host_to.copy_(value); });
    return to;
  }
  host_to.copy_(host_from);
  const bool host_waits = !is_ours(to) || (!is_ours(from) && !(non_blocking && from.is_pinned()));
  if (host_waits) machine.count_host_wait(stream.first);
  if (host_waits) machine.host_waits(machine.clock_of(stream));
  return to;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  at::Tensor destination = to;
  return copy_(destination, from, non_blocking);
}

at::Scalar item(const at::Tensor& tensor) {
  Machine& machine = Machine::get();
  const auto lock = machine.lock();
  const StreamName stream = current_stream(tensor.device().index());
  machine.count_host_wait(stream.first);
  machine.access(machine.launch(stream), tensor.const_data_ptr(), false, "item");
  machine.host_waits(machine.clock_of(stream));
  return on_host(tensor).item();
}

at::Tensor view(const at::Tensor& tensor, c10::SymIntArrayRef size) {
  return at::native::view(tensor, C10_AS_INTARRAYREF_SLOW(size));
}
at::Tensor as_strided(const at::Tensor& tensor, c10::SymIntArrayRef size,
                      c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      tensor, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? std::optional(offset->expect_int()) : std::nullopt);
}
at::Tensor reshape_alias(const at::Tensor& tensor, c10::SymIntArrayRef size,
                         c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(tensor, C10_AS_INTARRAYREF_SLOW(size),
                                    C10_AS_INTARRAYREF_SLOW(stride));
}
const at::Tensor& resize_(const at::Tensor& tensor, c10::SymIntArrayRef size,
                          std::optional<at::MemoryFormat> format) {
  return at::native::resize_(tensor, C10_AS_INTARRAYREF_SLOW(size), format);
}
at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage, c10::SymInt offset,
                        c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), offset.expect_int());
  return tensor;
}
at::Tensor& set_tensor(at::Tensor& tensor, const at::Tensor& source) {
  return set_storage(tensor, source.storage(), source.storage_offset(), source.sym_sizes(),
                     source.sym_strides());
}
void record_stream(at::Tensor& tensor, c10::Stream stream) {
  device_allocator().recordStream(tensor.storage().data_ptr(), stream);
}

}  // namespace

void register_kernels() {
  // Never freed, because other threads may run operators while the process exits.
  static auto* const all =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  static auto* const aten =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  aten->impl("empty.memory_format", empty);
  aten->impl("empty_strided", empty_strided);
  aten->impl("copy_", copy_);
  aten->impl("_copy_from", copy_from);
  aten->impl("_local_scalar_dense", item);
  aten->impl("view", view);
  aten->impl("as_strided", as_strided);
  aten->impl("_reshape_alias", reshape_alias);
  aten->impl("resize_", resize_);
  aten->impl("set_.source_Storage_storage_offset", set_storage);
  aten->impl("set_.source_Tensor", set_tensor);
  aten->impl("record_stream", record_stream);
}

}  // namespace sluice::sim
