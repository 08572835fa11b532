// A module with its own forward, cut into stages.
//
// Thread-safety: see Model. A factory is called on the threads of all ranks.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Type.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <functional>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/values.h"

namespace torch::nn {
class ModuleListImpl;
class ModuleDictImpl;
class SequentialImpl;
}  // namespace torch::nn

namespace sluice {

// The parts that a stage keeps. Its question takes a name: of a part, of a holder of parts
// ("layers": true if any of them is kept), or of something inside a part. Converts to
// std::function<bool(const std::string&)>, so that a class can take it without including sluice.
class Kept {
 public:
  Kept() = default;  // everything
  Kept(std::vector<std::string> parts, std::vector<std::string> all_parts);

  // True if it is kept. Throws Error(kUsage) with the nearest name for one unrelated to all parts.
  bool operator()(const std::string& name) const;
  // True if the name is related to some part, kept or not.
  bool knows(const std::string& name) const;
  // The same question of names inside a child: under("encoder")("layers.0") is "encoder.layers.0".
  Kept under(const std::string& child) const;

  // True if there are parts inside the part of this name, kept or not.
  bool holds_parts(const std::string& name) const;
  const std::vector<std::string>& parts() const { return parts_; }  // kept, in order
  bool all() const { return parts_.size() == all_parts_.size(); }

 private:
  std::vector<std::string> parts_, all_parts_;
  std::string prefix_;
};

namespace detail {

// Removes the elements that are not kept, or the child as a whole. Returns the new content of its
// holder: the child, nothing, or for a ModuleList an empty one.
std::shared_ptr<torch::nn::Module> drop_child(torch::nn::Module& parent, const Kept& kept,
                                              const std::shared_ptr<torch::nn::Module>& child);

template <typename Module>
void drop_held(torch::nn::Module& parent, const Kept& kept, std::shared_ptr<Module>& holder) {
  if (holder) holder = std::dynamic_pointer_cast<Module>(drop_child(parent, kept, holder));
}
template <typename Module>
void drop_held(torch::nn::Module& parent, const Kept& kept,
               torch::nn::ModuleHolder<Module>& holder) {
  if (holder.is_empty()) return;
  std::shared_ptr<Module> held = holder.ptr();
  drop_held(parent, kept, held);
  holder = std::move(held);
}

}  // namespace detail

// Removes from a module what a stage does not keep. holders: the members of `parent` that hold its
// children (a torch module such as torch::nn::Linear, or a shared_ptr), since a member outlives
// unregister_module().
//
//   a child that is not kept is unregistered, and its holder empty: `if (norm) x = norm(x);`
//   of a ModuleList, the elements keep their index and those of a ModuleDict their key; where one
//     is not kept stands an empty torch::nn::Module: `if (auto* b = module->as<Block>()) ...`
//   of a Sequential, an Identity stands there, so that it can be called as it is
//   a ModuleList that is not kept at all is empty, so that a loop over it does nothing
//
// A forward without the `if` ends the process, after a line on stderr that names the place. Throws
// Error(kUsage) for a holder whose module is not registered in `parent`, and for a child that is in
// no part.
template <typename... Holders>
void drop_unkept(torch::nn::Module& parent, const Kept& kept, Holders&... holders) {
  (detail::drop_held(parent, kept, holders), ...);
}

// The tensors that a forward returns. Converts, at compile time and to any depth, from:
//   a tensor; an std::optional of one (empty: an undefined tensor, a value that is not there)
//   std::tuple, std::pair, std::array, a vector or any other range: their elements in order
//   Values, pairs of a string and a tensor, a map of them: tensors with names
//   your own type, by a function beside it:
//     auto tensors_of(const Reply& reply) { return std::tie(reply.logits, reply.hidden); }
class Outputs {
 public:
  template <typename T>
  requires(!std::same_as<std::remove_cvref_t<T>, Outputs>)
      Outputs(const T& value) {  // NOLINT: meant to convert
    add(value);
  }

  // The tensors in the order in which they were found, without their names.
  std::vector<at::Tensor> tensors() const;
  // The tensors of these names, in this order: by name where they have names (others are left out),
  // else by position. Throws Error(kUsage), which names `who` as the source, for a missing name and
  // for another number of tensors.
  std::vector<at::Tensor> named(const std::vector<std::string>& names,
                                const std::string& who) const;

 private:
  template <typename T>
  static constexpr bool is_name = std::convertible_to<const T&, std::string_view>;

  void add_tensor(std::string name, at::Tensor tensor) {
    items_.emplace_back(std::move(name), std::move(tensor));
  }

  template <typename T>
  void add(const T& value) {
    if constexpr (std::convertible_to<const T&, at::Tensor>) {
      add_tensor("", value);
    } else if constexpr (requires { std::tuple_size<T>::value; }) {
      std::apply([this](const auto&... parts) { add_all(parts...); }, value);
    } else if constexpr (std::ranges::input_range<const T>) {
      for (const auto& part : value) add(part);
    } else if constexpr (requires {
                           value.has_value();
                           *value;
                         }) {
      if (value.has_value()) {
        add(*value);
      } else {
        add_tensor("", at::Tensor());
      }
    } else {
      static_assert(
          requires { tensors_of(value); },
          "say which tensors this type holds: a function beside it, auto tensors_of(const "
          "T& value) { return std::tie(value.a, value.b); }");
      add(tensors_of(value));
    }
  }

  template <typename... Parts>
  void add_all(const Parts&... parts) {
    if constexpr (sizeof...(Parts) == 2) {
      add_two(parts...);
    } else {
      (add(parts), ...);
    }
  }

  template <typename First, typename Second>
  void add_two(const First& first, const Second& second) {
    if constexpr (is_name<First>) {
      add_tensor(std::string(std::string_view(first)), second);
    } else {
      add(first);
      add(second);
    }
  }

  std::vector<std::pair<std::string, at::Tensor>> items_;  // "": without a name
};

// A piece that is never cut: a child, an element of a list ("layers.3"), a parameter of the module
// itself. It reads values that `forward` needs to run it, from the batch or from earlier parts, and
// writes values for later ones.
struct Part {
  std::string name;
  std::vector<std::string> reads = {"hidden"};
  std::vector<std::string> writes = {"hidden"};
  int length = 0;  // for a list: number of its elements `name`.0, `name`.1, .., each a part
};

// The description of a module's parts.
struct ModuleTree {
  // In the order in which `forward` runs them, each once. Empty: the module is made once, without
  // memory, for their names: its own parameters first, wherever `forward` reads them, then the
  // children in the order of their registration, the elements of ModuleList, ModuleDict and
  // Sequential in place of these; the first reads `input`, the last writes `output`, and between
  // them is "hidden".
  std::vector<Part> parts = {};
  std::string input = "x", output = "hidden";
  // The parts that count as layers in a split, or their holders ("layers"). Empty: the elements of
  // lists, or without lists all parts.
  std::vector<std::string> blocks = {};
  // Instead of blocks: the class of the layers, "Block" or "mine::BlockImpl"
  // (class_name<BlockImpl>()), anywhere in the module. The module is then made once, also if
  // `parts` are given, and a part may then name a holder of others.
  std::string block_class = {};
  // {full name of a parameter, full name of its first use}: separate tensors in the module. A
  // module that forward runs in two places, such as an embedding that is also the head, has to be
  // two members.
  std::vector<std::pair<std::string, std::string>> ties = {};
};

template <typename Module>
std::string class_name() {
  return c10::demangle(typeid(Module).name());
}

namespace detail {

struct WholeModule {
  std::function<std::shared_ptr<torch::nn::Module>(const Kept&)> make;
  std::function<Outputs(torch::nn::Module&, const Values&)> forward;
  std::string class_name;
  bool is_ready = false;  // `make` returns an existing module
};

Model from_module(WholeModule whole, const ModuleTree& tree);
[[noreturn]] void refuse_module(const torch::nn::Module& module, const std::string& class_name);

template <typename Module>
std::shared_ptr<Module> pointer_to(std::shared_ptr<Module> module) {
  return module;
}
template <typename Module>
std::shared_ptr<Module> pointer_to(const torch::nn::ModuleHolder<Module>& holder) {
  return holder.ptr();
}

template <typename Source>
concept IsModule = requires(const Source& source) {
  pointer_to(source);
};

template <typename Net, typename Forward>
std::function<Outputs(torch::nn::Module&, const Values&)> typed_forward(Forward forward) {
  static_assert(std::is_invocable_v<const Forward&, Net&, const Values&> ||
                    std::is_invocable_v<const Forward&, Net&, const at::Tensor&>,
                "forward of from_module() takes (Net&, const sluice::Values&) or (Net&, const "
                "at::Tensor&), where Net is the class of the module (NetImpl), not its holder");
  return [forward = std::move(forward)](torch::nn::Module& module, const Values& in) -> Outputs {
    Net* net = dynamic_cast<Net*>(&module);
    if (!net) refuse_module(module, class_name<Net>());
    if constexpr (std::is_invocable_v<const Forward&, Net&, const Values&>) {
      return forward(*net, in);
    } else {
      return forward(*net, in.begin()->second);
    }
  };
}

}  // namespace detail

// source: a factory (const Kept&) -> a module (shared_ptr or holder), called once for each local
// stage, on its rank; it may leave out what is not kept, or make everything and drop it
// (drop_unkept): only what is left takes memory (docs/library.md, Without memory). A factory whose
// constructors reach into memory themselves is called again with memory for all, and a warning says
// so.
// Or a module that is ready: for one stage, since there is one of it; it then holds the trained
// weights afterwards.
//
// forward: (Net&, const Values& in) -> what Outputs takes: runs the parts that are there. `in`: the
// values that the stage's parts read and that come from the batch or an earlier stage. It returns
// all values that later stages or the loss read: by name, or in the order in which parts write
// them. Or (Net&, const at::Tensor& first), if the first value of `in` is enough.
//
// Every part is a layer of the model, for all ways to split. Parts of one stage run as one, or
// where some run twice (PipelineOptions::activation_checkpoint) in pieces, each made by a call of
// the factory: random numbers in forward are keyed by the first of the stage, so that bits with
// dropout depend on the cuts; without Model::fuse every part is a module of its own (and the
// factory called once for each), and they do not. Model::inputs are the values that parts read and
// none writes, Model::outputs those that the last writes; you may change both.
//
// Throws Error(kUsage) for parts that are not in the module and names that are not parts; building
// the stages throws it for a factory that leaves out a kept part, or makes a parameter that is not
// kept.
template <typename Source, typename Forward>
Model from_module(Source source, Forward forward, const ModuleTree& tree = {}) {
  constexpr bool is_factory = std::is_invocable_v<const Source&, const Kept&>;
  static_assert(
      is_factory || detail::IsModule<Source>,
      "from_module() takes a factory, [](const sluice::Kept& kept) { .. }, which returns a "
      "shared_ptr of a module or its holder, or a module that is ready");
  detail::WholeModule whole;
  if constexpr (is_factory) {
    using Net =
        typename decltype(detail::pointer_to(source(std::declval<const Kept&>())))::element_type;
    whole.make = [source = std::move(source)](const Kept& kept) {
      return detail::pointer_to(source(kept));
    };
    whole.forward = detail::typed_forward<Net>(std::move(forward));
    whole.class_name = class_name<Net>();
  } else {
    auto ready = detail::pointer_to(source);
    using Net = typename decltype(ready)::element_type;
    whole.make = [ready](const Kept&) { return ready; };
    whole.forward = detail::typed_forward<Net>(std::move(forward));
    whole.class_name = class_name<Net>();
    whole.is_ready = true;
  }
  return detail::from_module(std::move(whole), tree);
}

}  // namespace sluice
