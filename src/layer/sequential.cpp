#include <torch/nn/modules/container/sequential.h>

#include <functional>
#include <map>
#include <utility>

#include "sluice/error.h"
#include "sluice/model.h"

namespace sluice {
namespace {

constexpr const char* kBetween = "hidden";

// Parameters shared with an earlier child: {name inside this child, full name of the first use}.
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

struct Child {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> call;
};

// Freezes the clone's parameters like the original's, because clone() makes all trainable.
void freeze_alike(torch::nn::Module& clone, const torch::nn::Module& original) {
  const auto own = clone.named_parameters();
  for (const auto& item : original.named_parameters())
    own[item.key()].set_requires_grad(item.value().requires_grad());
}

[[noreturn]] void refuse_child(const char* where, const std::string& what,
                               const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = where, .remedy = remedy});
}

// Makes one layer per child. make_clone(i) clones a child that shares parameters with an earlier
// child, so that each use of a tied parameter has a separate gradient.
Model chain(std::vector<Child> children, const std::string& input, const char* where,
            const std::function<Child(std::size_t i)>& make_clone) {
  if (children.empty())
    refuse_child(where, "the module has no children", "give it at least one module");
  Model model;
  FirstUses first_uses;
  for (std::size_t i = 0; i < children.size(); ++i) {
    LayerSpec& layer = model.layers.emplace_back();
    layer.name = children[i].name;
    layer.reads = {i == 0 ? input : kBetween};
    layer.writes = {kBetween};
    layer.class_name = children[i].module->name();
    layer.ties = ties_of(layer.name, *children[i].module, first_uses);
    Child child = std::move(children[i]);
    if (!layer.ties.empty()) {
      try {
        Child clone = make_clone(i);
        freeze_alike(*clone.module, *child.module);
        child = std::move(clone);
      } catch (const c10::Error&) {
        refuse_child(where,
                     "child '" + layer.name +
                         "' shares a parameter with an earlier one and cannot be cloned",
                     "derive its class from torch::nn::Cloneable, or write LayerSpecs with "
                     "LayerSpec::ties");
      }
    }
    layer.make = [module = child.module] { return module; };
    layer.forward = [call = child.call](torch::nn::Module&, const std::vector<at::Tensor>& inputs) {
      return std::vector<at::Tensor>{call(inputs.front())};
    };
    // Keep the module's present weights.
    layer.initialize = [](const std::string&, const std::string&, at::Tensor&, std::uint64_t) {};
  }
  model.inputs = {input};
  model.outputs = {kBetween};
  return model;
}

using NamedAny = std::pair<std::string, torch::nn::AnyModule>;

void collect(torch::nn::SequentialImpl& net, const std::string& prefix, Nested nested,
             std::vector<NamedAny>& children) {
  const std::vector<std::string> names = net.named_children().keys();
  std::size_t i = 0;
  for (const torch::nn::AnyModule& held : net) {
    const std::string name = prefix + names[i++];
    auto* inner = held.ptr()->as<torch::nn::SequentialImpl>();
    if (inner && nested == Nested::kExpanded) {
      collect(*inner, name + ".", nested, children);
    } else {
      children.emplace_back(name, held);
    }
  }
}

Child child_of(const std::string& name, const torch::nn::AnyModule& any) {
  const auto held = std::make_shared<torch::nn::AnyModule>(any);
  return {name, any.ptr(), [held](const at::Tensor& x) { return held->forward<at::Tensor>(x); }};
}

}  // namespace

Model from_sequential(const torch::nn::Sequential& net, const std::string& input, Nested nested) {
  std::vector<NamedAny> held;
  if (!net.is_empty()) collect(*net.ptr(), "", nested, held);
  std::vector<Child> children;
  for (const auto& [name, any] : held) children.push_back(child_of(name, any));
  return chain(std::move(children), input, "from_sequential",
               [&](std::size_t i) { return child_of(held[i].first, held[i].second.clone()); });
}

namespace detail {

Model from_children(const torch::nn::Module& parent, ChildCall call,
                    const std::function<bool(const torch::nn::Module&)>& is_block,
                    const std::string& input) {
  const auto held = parent.named_children().pairs();
  const auto child_of = [&](const std::string& name, std::shared_ptr<torch::nn::Module> module) {
    return Child{name, module, [module, call](const at::Tensor& x) { return call(*module, x); }};
  };
  std::vector<Child> children;
  for (const auto& [name, module] : held) {
    if (!is_block(*module))
      refuse_child("from_children", "child '" + name + "' is a " + module->name(),
                   "give a module whose children are all of the class that `call` takes");
    children.push_back(child_of(name, module));
  }
  return chain(std::move(children), input, "from_children",
               [&](std::size_t i) { return child_of(held[i].first, held[i].second->clone()); });
}

}  // namespace detail
}  // namespace sluice
