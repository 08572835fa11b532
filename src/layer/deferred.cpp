// How torch's own modules come to be without memory: torch::empty is intercepted in the dispatcher.
//
// While a scope is open its thread includes one extra dispatch key, which all operators pass by but
// aten::empty, in which every factory of torch ends. The key is torch's
// TESTING_ONLY_GenericWrapper: nothing but torch's own C++ tests uses it (keyed_random.cpp has the
// other one of its kind).
#include "layer/deferred.h"

#include <ATen/ATen.h>
#include <ATen/ops/empty_ops.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <optional>
#include <utility>

#include "sluice/error.h"

namespace sluice {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;
constexpr c10::DispatchKeySet kBelowKey(c10::DispatchKeySet::FULL_AFTER, kKey);

bool is_large(std::size_t num_dimensions) { return num_dimensions >= 2; }

at::Tensor empty_without_memory(c10::DispatchKeySet keys, c10::SymIntArrayRef sizes,
                                std::optional<at::ScalarType> dtype,
                                std::optional<at::Layout> layout, std::optional<at::Device> device,
                                std::optional<bool> pin_memory,
                                std::optional<at::MemoryFormat> format) {
  if (!device && is_large(sizes.size())) device = at::kMeta;
  return at::_ops::empty_memory_format::redispatch(keys & kBelowKey, sizes, dtype, layout, device,
                                                   pin_memory, format);
}

// The variable stays; Variable::set_data, which would do the same, refuses to come from or go to
// the meta device.
void put_in_place(const at::Tensor& variable, at::Device device) {
  const c10::InferenceMode normal_tensors(false);
  const at::Tensor memory = at::empty_strided(
      variable.sizes(), variable.strides(), variable.options().device(device).requires_grad(false));
  variable.unsafeGetTensorImpl()->shallow_copy_from(memory.getIntrusivePtr());
  if (!torch::autograd::impl::get_autograd_meta(variable)) return;
  // The accumulator of its gradient knows the old device.
  using Node = torch::autograd::Node;
  torch::autograd::impl::set_grad_accumulator(
      variable, c10::weak_intrusive_ptr<Node>(c10::intrusive_ptr<Node>()));
}

[[noreturn]] void refuse_deferred(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage,
              {.what = what, .where = "StageOptions::deferred", .remedy = remedy});
}

std::shared_ptr<torch::nn::Module> make_without_memory(
    const std::function<std::shared_ptr<torch::nn::Module>()>& make, const std::string& layer) {
  const c10::impl::IncludeDispatchKeyGuard include(kKey);
  try {
    return make();
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    refuse_deferred(
        "layer '" + layer + "' cannot be made without memory: " + what.substr(0, what.find('\n')),
        "say the device (torch::kCPU) of tensors whose numbers its constructor reads");
  }
}

}  // namespace

std::shared_ptr<torch::nn::Module> make_deferred(
    const std::function<std::shared_ptr<torch::nn::Module>()>& make, const std::string& layer) {
  std::shared_ptr<torch::nn::Module> module = make_without_memory(make, layer);
  if (!module) return module;
  if (module.use_count() > 1) {
    refuse_deferred("the module of layer '" + layer +
                        "' is held by somebody else, for whom it would be emptied",
                    "make a new one in LayerSpec::make");
  }
  for (const auto& item : module->named_buffers()) {
    if (!item.value().defined() || !item.value().is_meta()) continue;
    refuse_deferred("buffer '" + item.key() + "' of layer '" + layer + "' would lose its numbers",
                    "say its device (torch::kCPU) where it is made");
  }
  for (const at::Tensor& parameter : module->parameters()) {
    if (parameter.defined() && is_large(parameter.sizes().size()) && !parameter.is_meta())
      put_in_place(parameter, at::kMeta);
  }
  return module;
}

void to_empty(torch::nn::Module& module, at::Device device) {
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined() && tensor.is_meta()) put_in_place(tensor, device);
    }
  }
  module.to(device);
}

}  // namespace sluice

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericWrapper, m) {
  m.impl("empty.memory_format", &sluice::empty_without_memory);
}
