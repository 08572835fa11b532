// Cuts a module that has its own forward into stages.
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

// The parts of a module (see Part) that a stage holds. Kept converts to std::function<bool(const
// std::string&)>, so that your class need not include sluice.
class Kept {
 public:
  Kept() = default;
  Kept(std::vector<std::string> parts, std::vector<std::string> all_parts);

  // True if the stage keeps any part of `name`: a part, something inside one, or a holder of parts
  // ("layers"). Throws Error(kUsage) for an unrelated name.
  bool operator()(const std::string& name) const;
  // True if `name` is a part of the module, lies inside a part, or holds parts. The part may be on
  // any stage. Always true if no parts are declared.
  bool knows(const std::string& name) const;
  // Returns a Kept for names inside a child: under("encoder")("layers.0") means "encoder.layers.0".
  Kept under(const std::string& child) const;

  bool holds_parts(const std::string& name) const;
  const std::vector<std::string>& parts() const { return parts_; }  // kept, in order
  bool all() const { return parts_.size() == all_parts_.size(); }

 private:
  std::vector<std::string> parts_, all_parts_;
  std::string prefix_;
};

namespace detail {

// Returns the new content of the child's holder: the child, null, or an empty ModuleList.
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

// Removes from `parent` the children that a stage does not keep. Pass all members that hold a child
// (torch::nn::Linear, or a shared_ptr), because unregister_module() does not empty them.
//
// - A dropped child leaves an empty holder: `if (norm) x = norm(x);`
// - In a ModuleList or ModuleDict an empty Module replaces a dropped element, so indices and keys
//   stay: `if (auto* b = module->as<Block>()) ...`
// - In a Sequential an Identity replaces it. A dropped ModuleList becomes empty.
// A forward without the `if` ends the process with a message. Throws Error(kUsage) for a module
// that is not registered in `parent` or belongs to no part.
template <typename... Holders>
void drop_unkept(torch::nn::Module& parent, const Kept& kept, Holders&... holders) {
  (detail::drop_held(parent, kept, holders), ...);
}

// The tensors that a forward returns. Converts from these types, nested to any depth:
// - tensor, or optional tensor (empty: an undefined tensor)
// - tuple, pair, array, vector or another range of values
// - with names: Values, pair or map of string and tensor
// - your type, by a function beside it:
//   auto tensors_of(const Reply& reply) { return std::tie(reply.logits, reply.hidden); }
class Outputs {
 public:
  template <typename T>
  requires(!std::same_as<std::remove_cvref_t<T>, Outputs>)
      Outputs(const T& value) {  // NOLINT: meant to convert
    add(value);
  }

  std::vector<at::Tensor> tensors() const;
  // Returns the tensors of these names, or in order if they are unnamed. Throws Error(kUsage) for a
  // missing name or wrong number.
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

// A piece of a module that is on one stage as a whole: a child, a list element ("layers.3"), or a
// parameter of the module itself. It reads the values that `forward` needs to run it, and writes
// values for later parts.
struct Part {
  std::string name;
  std::vector<std::string> reads = {"hidden"};
  std::vector<std::string> writes = {"hidden"};
  int length = 0;  // number of elements of a list, which are parts
};

struct ModuleTree {
  // In the order in which `forward` runs them. If empty, the module is made once without memory to
  // find them: its own parameters, then its children in order of registration, with the elements of
  // ModuleList, ModuleDict and Sequential. The first part then reads `input`, the last writes
  // `output`, and others exchange "hidden".
  std::vector<Part> parts = {};
  std::string input = "x", output = "hidden";
  // Parts or lists of parts ("layers") that count as layers in a split. Default: list elements, or
  // all parts without lists.
  std::vector<std::string> blocks = {};
  // Instead of `blocks`: the blocks' class, as "Block" or class_name<BlockImpl>(). The module is
  // then made once, and a part may hold others.
  std::string block_class = {};
  // {parameter, its first use}, by full names. They must be separate members: an embedding and a
  // head, for example.
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
  bool is_ready = false;
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

// Makes a model whose layers are the parts of a module.
//
// `source` is a factory (const Kept&) that returns a module (shared_ptr or holder), called once per
// local stage on its rank. It leaves out parts that are not kept, or makes all and calls
// drop_unkept(). Only the remaining parts take memory, unless constructors access memory, which
// logs a warning (docs/library.md). For a single stage, `source` may be a module, which then holds
// the trained weights.
//
// `forward`, called with (Net&, const Values& in) or (Net&, const at::Tensor& first), runs the
// parts that exist. `in` has the values that these parts read from the batch or earlier stages. The
// result has all values that later stages or the loss read, by name or in the order in which parts
// write them.
//
// The parts of a stage run as one, in pieces if some are recomputed
// (PipelineOptions::activation_checkpoint). Random numbers are keyed by the first part, so dropout
// depends on the cuts. Without Model::fuse, every part is a module from its own factory call, and
// dropout does not depend on the cuts. You may change Model::inputs and Model::outputs.
// Throws Error(kUsage) for an unknown part. Building stages throws it if a factory leaves out a
// kept part or makes an unkept parameter.
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
