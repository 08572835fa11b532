#include "layer/deferred.h"

#include <ATen/ATen.h>

#include <map>
#include <utility>

#include "layer/default_values.h"
#include "layer/tape.h"
#include "layer/unfilled.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using torch::nn::Module;

thread_local bool keeps_factory_numbers = false;

bool is_large(const at::Tensor& parameter) { return parameter.dim() >= 2; }

void empty_in_place(const at::Tensor& variable, at::Device device) {
  const c10::InferenceMode normal_tensors(false);
  const at::Tensor memory = at::empty_strided(
      variable.sizes(), variable.strides(), variable.options().device(device).requires_grad(false));
  set_unfilled(memory);
  replace_tensor_data(variable, memory);
}

using Parameters = std::map<const void*, std::string>;
Parameters parameters_of(const Module& module) {
  Parameters parameters;
  for (const auto& item : module.named_parameters())
    if (item.value().defined()) parameters.emplace(item.value().unsafeGetTensorImpl(), item.key());
  return parameters;
}

Tape::Gets gets(const at::Tensor& tensor, const Parameters& parameters, Drawn drawn) {
  const auto found = parameters.find(tensor.unsafeGetTensorImpl());
  const bool is_drawn = drawn == Drawn::kByDefault && !keeps_factory_numbers &&
                        found != parameters.end() && has_default_value(found->second, tensor);
  return is_drawn ? Tape::Gets::kMemory : Tape::Gets::kNumbers;
}

[[noreturn]] void refuse_deferred(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage,
              {.what = what, .where = "StageOptions::deferred", .remedy = remedy});
}

}  // namespace

FactoryNumbersScope::FactoryNumbersScope(bool keeps)
    : outer_(std::exchange(keeps_factory_numbers, keeps)) {}
FactoryNumbersScope::~FactoryNumbersScope() { keeps_factory_numbers = outer_; }

std::shared_ptr<Module> make_deferred(const ModuleMaker& make, const std::string& layer,
                                      Drawn drawn) {
  std::shared_ptr<Module> module;
  try {
    Tape tape;
    module = make();
    if (!module) return module;
    if (module.use_count() > 1) {
      refuse_deferred(
          "the module of layer '" + layer + "' is also held elsewhere, and would be emptied there",
          "make a new one in LayerSpec::make");
    }
    const Parameters parameters = parameters_of(*module);
    tape.finish([&](const at::Tensor& tensor) {
      return is_large(tensor) && parameters.contains(tensor.unsafeGetTensorImpl())
                 ? Tape::Gets::kNothing
                 : gets(tensor, parameters, drawn);
    });
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    refuse_deferred(
        "layer '" + layer + "' cannot be made without memory: " + what.substr(0, what.find('\n')),
        "give the device (torch::kCPU) of tensors whose memory its constructor accesses");
  }
  // The tape does not record parameters that were made on an explicit device, so empty them here.
  for (const at::Tensor& parameter : module->parameters())
    if (parameter.defined() && is_large(parameter) && !parameter.is_meta())
      empty_in_place(parameter, at::kMeta);
  return module;
}

std::shared_ptr<Module> make_with_memory_for_kept(const ModuleMaker& make, Drawn drawn) {
  Tape tape;
  std::shared_ptr<Module> module = make();
  if (!module) return module;
  const Parameters parameters = parameters_of(*module);
  tape.finish([&](const at::Tensor& tensor) { return gets(tensor, parameters, drawn); });
  for (const auto& tensors : {module->parameters(), module->buffers()})
    for (const at::Tensor& tensor : tensors)
      TORCH_CHECK(!tensor.defined() || !tensor.is_meta(), "a tensor was made without an operator");
  return module;
}

std::shared_ptr<Module> make_names(const ModuleMaker& make) {
  const Tape tape;
  return make();
}

bool is_making_without_memory() { return Tape::is_recording(); }

void to_empty(Module& module, at::Device device) {
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined() && tensor.is_meta()) empty_in_place(tensor, device);
    }
  }
  module.to(device);
}

}  // namespace sluice
