#include "checkpoint/torch_optimizer.h"

#include <ATen/ATen.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "checkpoint/load_state.h"
#include "sluice/error.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamState;

// State of one parameter by field name. Tensors that the options do not use are undefined.
struct Fields {
  std::vector<std::pair<const char*, at::Tensor*>> tensors;
  std::int64_t* step = nullptr;
};

template <typename State>
Fields adam_fields(State& state) {
  return {{{"exp_avg", &state.exp_avg()},
           {"exp_avg_sq", &state.exp_avg_sq()},
           {"max_exp_avg_sq", &state.max_exp_avg_sq()}},
          &state.step()};
}
Fields fields_of(torch::optim::AdamParamState& state) { return adam_fields(state); }
Fields fields_of(torch::optim::AdamWParamState& state) { return adam_fields(state); }
Fields fields_of(torch::optim::SGDParamState& state) {
  return {{{"momentum_buffer", &state.momentum_buffer()}}, nullptr};
}
Fields fields_of(torch::optim::RMSpropParamState& state) {
  return {{{"square_avg", &state.square_avg()},
           {"momentum_buffer", &state.momentum_buffer()},
           {"grad_avg", &state.grad_avg()}},
          &state.step()};
}
Fields fields_of(torch::optim::AdagradParamState& state) {
  return {{{"sum", &state.sum()}}, &state.step()};
}

struct Kind {
  const char* name;
  bool (*is)(const Optimizer&);
  std::unique_ptr<OptimizerParamState> (*make)();
  Fields (*fields)(OptimizerParamState&);
};

template <typename Class, typename State>
constexpr Kind kind(const char* name) {
  return {name, [](const Optimizer& one) { return dynamic_cast<const Class*>(&one) != nullptr; },
          []() -> std::unique_ptr<OptimizerParamState> { return std::make_unique<State>(); },
          [](OptimizerParamState& state) { return fields_of(static_cast<State&>(state)); }};
}

const Kind* find_kind(const Optimizer& optimizer) {
  static constexpr std::array kKinds = {
      kind<torch::optim::AdamW, torch::optim::AdamWParamState>("AdamW"),
      kind<torch::optim::Adam, torch::optim::AdamParamState>("Adam"),
      kind<torch::optim::SGD, torch::optim::SGDParamState>("SGD"),
      kind<torch::optim::RMSprop, torch::optim::RMSpropParamState>("RMSprop"),
      kind<torch::optim::Adagrad, torch::optim::AdagradParamState>("Adagrad")};
  for (const Kind& known : kKinds)
    if (known.is(optimizer)) return &known;
  return nullptr;
}

const Kind& kind_of(const Optimizer& optimizer) {
  if (const Kind* kind = find_kind(optimizer)) return *kind;
  throw Error(
      ErrorKind::kUsage,
      {.what = "the state of this kind of optimizer cannot be saved",
       .where = "optimizer",
       .remedy = "AdamW, Adam, SGD, RMSprop and Adagrad can; save others as extra tensors"});
}

std::vector<std::pair<at::Tensor, OptimizedElements>> named_parameters(
    const Optimizer& optimizer, const ParameterNames& names) {
  std::vector<std::pair<at::Tensor, OptimizedElements>> named;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params())
      named.emplace_back(parameter, names.at(parameter.unsafeGetTensorImpl()));
  }
  return named;
}

std::string key(const char* field, const std::string& name) {
  return std::string(field) + "/" + name;
}

at::Tensor read_elements(const Checkpoint& checkpoint, const std::string& key,
                         const OptimizedElements& of, const at::Tensor& parameter) {
  const SavedTensor& saved = *checkpoint.find(SavedKind::kOptimizer, key);
  if (saved.shape != of.shape) {
    throw Error(ErrorKind::kCheckpoint, {.what = "'" + key + "' is " + shape_text(saved.shape) +
                                                 ", its parameter " + shape_text(of.shape),
                                         .where = checkpoint.path(),
                                         .remedy = "it belongs to another model"});
  }
  if (!of.parameter && parameter.sizes() == at::IntArrayRef(of.shape))
    return checkpoint.read(SavedKind::kOptimizer, key).to(parameter.device());
  const at::Tensor own = at::empty(parameter.sizes(), parameter.detach().options());
  load_optimizer(checkpoint, {StatePart{key, own, of.shape, of.begin, of.parameter}});
  return own;
}

// Returns false if the checkpoint has none of the fields for this parameter.
bool read_fields(const Checkpoint& checkpoint, const OptimizedElements& of, const Fields& fields,
                 const at::Tensor& parameter) {
  const std::string& name = of.name;
  bool found = false;
  for (const auto& [field, tensor] : fields.tensors) {
    if (!checkpoint.find(SavedKind::kOptimizer, key(field, name))) continue;
    *tensor = read_elements(checkpoint, key(field, name), of, parameter);
    found = true;
  }
  if (fields.step && checkpoint.find(SavedKind::kOptimizer, key("step", name))) {
    *fields.step = checkpoint.read(SavedKind::kOptimizer, key("step", name))
                       .to(at::kLong)
                       .item<std::int64_t>();
    found = true;
  }
  return found;
}

}  // namespace

std::string optimizer_name(const Optimizer& optimizer) { return kind_of(optimizer).name; }
bool is_known_optimizer(const Optimizer& optimizer) { return find_kind(optimizer) != nullptr; }

NamedTensors torch_optimizer_state(const Optimizer& optimizer, const ParameterNames& names) {
  const Kind& kind = kind_of(optimizer);
  NamedTensors state;
  for (const auto& [parameter, of] : named_parameters(optimizer, names)) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    const Fields fields = kind.fields(*found->second);
    for (const auto& [field, tensor] : fields.tensors)
      if (tensor->defined()) state.emplace_back(key(field, of.name), *tensor);
    if (fields.step)
      state.emplace_back(key("step", of.name), at::full({}, *fields.step, at::kLong));
  }
  return state;
}

void require_own_state(const Optimizer& optimizer, const ParameterNames& names,
                       const Checkpoint& checkpoint) {
  const Kind& kind = kind_of(optimizer);
  std::set<std::string> parameters;
  for (const auto& [parameter, of] : named_parameters(optimizer, names)) parameters.insert(of.name);
  const std::unique_ptr<OptimizerParamState> state = kind.make();
  const Fields own = kind.fields(*state);
  std::set<std::string> fields;
  for (const auto& [field, tensor] : own.tensors) fields.insert(field);
  if (own.step) fields.insert("step");
  for (const SavedTensor& saved : checkpoint.manifest().optimizer) {
    const std::size_t slash = saved.name.find('/');
    if (!parameters.contains(saved.name.substr(slash + 1))) continue;
    if (fields.contains(saved.name.substr(0, slash))) continue;
    throw Error(ErrorKind::kCheckpoint,
                {.what = "the checkpoint has '" + saved.name + "', which is not a state of " +
                         kind.name + ": the parameter had another optimizer",
                 .where = checkpoint.path(),
                 .remedy = "give each parameter the kind of optimizer that it had"});
  }
}

void load_torch_optimizer(Optimizer& optimizer, const ParameterNames& names,
                          const Checkpoint& checkpoint) {
  const Kind& kind = kind_of(optimizer);
  for (const auto& [parameter, of] : named_parameters(optimizer, names)) {
    std::unique_ptr<OptimizerParamState> state = kind.make();
    void* const at = parameter.unsafeGetTensorImpl();
    const bool has_elements = parameter.numel() > 0 || c10::multiply_integers(of.shape) == 0;
    if (has_elements && read_fields(checkpoint, of, kind.fields(*state), parameter)) {
      optimizer.state()[at] = std::move(state);
    } else {
      optimizer.state().erase(at);
    }
  }
}

}  // namespace sluice
