// The children of a torch::nn::Sequential as layers.
#include <torch/nn/modules/container/sequential.h>

#include <map>

#include "sluice/error.h"
#include "sluice/model.h"

namespace sluice {
namespace {

constexpr const char* kBetween = "hidden";

// {name inside the child, full name of the first use} of parameters that an earlier child has too.
using Ties = std::vector<std::pair<std::string, std::string>>;
using FirstUses = std::map<const void*, std::string>;

Ties ties_of(const std::string& child, const torch::nn::Module& module, FirstUses& first_uses) {
  Ties ties;
  FirstUses own;
  for (const auto& item : module.named_parameters()) {
    const void* tensor = item.value().unsafeGetTensorImpl();
    const auto found = first_uses.find(tensor);
    if (found != first_uses.end()) {
      ties.emplace_back(item.key(), found->second);
    } else {
      own.emplace(tensor, child + "." + item.key());
    }
  }
  first_uses.merge(own);
  return ties;
}

// A leaf of its own for every use of a tied parameter: its gradient is that of this use.
torch::nn::AnyModule with_own_parameters(const std::string& child,
                                         const torch::nn::AnyModule& any) {
  try {
    torch::nn::AnyModule clone = any.clone();
    // What is frozen stays so: a clone's parameters are made anew.
    const auto own = clone.ptr()->named_parameters();
    for (const auto& item : any.ptr()->named_parameters())
      own[item.key()].set_requires_grad(item.value().requires_grad());
    return clone;
  } catch (const c10::Error&) {
    throw Error(ErrorKind::kUsage,
                {.what = "child '" + child +
                         "' shares a parameter with an earlier one and cannot "
                         "be cloned",
                 .where = "from_sequential",
                 .remedy = "derive its class from torch::nn::Cloneable, or write LayerSpecs with "
                           "LayerSpec::ties"});
  }
}

}  // namespace

Model from_sequential(const torch::nn::Sequential& net, const std::string& input) {
  if (net.is_empty() || net->is_empty()) {
    throw Error(ErrorKind::kUsage, {.what = "the torch::nn::Sequential has no children",
                                    .where = "from_sequential",
                                    .remedy = "give it at least one module"});
  }
  Model model;
  FirstUses first_uses;
  const auto children = net->named_children();
  std::size_t i = 0;
  for (torch::nn::AnyModule& held : *net.ptr()) {
    LayerSpec& layer = model.layers.emplace_back();
    layer.name = children[i].key();
    layer.reads = {i == 0 ? input : kBetween};
    layer.writes = {kBetween};
    layer.class_name = held.ptr()->name();
    layer.ties = ties_of(layer.name, *held.ptr(), first_uses);
    const auto any = std::make_shared<torch::nn::AnyModule>(
        layer.ties.empty() ? held : with_own_parameters(layer.name, held));
    layer.make = [any] { return any->ptr(); };
    layer.forward = [any](torch::nn::Module&, const std::vector<at::Tensor>& inputs) {
      return std::vector<at::Tensor>{any->forward<at::Tensor>(inputs.front())};
    };
    // It holds its weights already.
    layer.initialize = [](const std::string&, const std::string&, at::Tensor&, std::uint64_t) {};
    ++i;
  }
  model.inputs = {input};
  model.outputs = {kBetween};
  return model;
}

}  // namespace sluice
