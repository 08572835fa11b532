// A module with a forward of its own, cut into stages.
//
// Owns: Part, ModuleTree, from_module(). Does not own: what a stage keeps of it (kept.h), what its
// forward returns (outputs.h), where the cuts are (partition.h).
// Thread-safety: see Model. A factory is called on the threads of all ranks.
#pragma once

#include <c10/util/Type.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/kept.h"
#include "sluice/parts/outputs.h"

namespace sluice {

// What a cut leaves in one piece: a child, an element of a list ("layers.3"), a parameter of the
// module itself. Values: those that `forward` needs to run it, from the batch or from earlier
// parts, and those that it makes for later ones.
struct Part {
  std::string name;
  std::vector<std::string> reads = {"hidden"};
  std::vector<std::string> writes = {"hidden"};
  int count = 0;  // of a list: how many elements it has, `name`.0, `name`.1, .., each a part
};

// What is said of a module's parts.
struct ModuleTree {
  // In the order in which `forward` runs them, each once. Empty: the module is made once, without
  // memory, for their names: its own parameters first, wherever `forward` reads them, then the
  // children in the order of their registration, the elements of ModuleList, ModuleDict and
  // Sequential in place of these; the first reads `input`, all else is "hidden".
  std::vector<Part> parts = {};
  std::string input = "x";
  // The parts that count as layers in a split, or what holds them ("layers"). Empty: the elements
  // of lists, or where there are none, all parts.
  std::vector<std::string> blocks = {};
  // Instead: the class of the layers, "Block" or "mine::BlockImpl", wherever in the module they are
  // (class_name<BlockImpl>() says it). The module is then made once, also where `parts` are given,
  // of which one may then name what holds others.
  std::string block_class = {};
  // {full name of a parameter, full name of its first use}: tensors of their own in the module.
  // What forward runs in two places, as an embedding that is the head, too, is two members.
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
  bool is_ready = false;  // `make` gives the one that there is
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
// stage, on its rank; it may leave out what is not kept, or make all and drop it (drop_unkept):
// only what is left takes memory (docs/library.md, Without memory). A factory whose constructors
// reach into memory themselves is called again with memory for all, and a warning says so.
// Or a module that is ready: for one stage, since there is one of it; it then holds the trained
// weights afterwards.
//
// forward: (Net&, const Values& in) -> what Outputs takes: runs the parts that are there. `in`: the
// values that the stage's parts read and that come from the batch or an earlier stage. Returned are
// all values that later stages or the loss read: by name, or in the order in which parts write
// them. Or (Net&, const at::Tensor& first), where the first of `in` is all that is needed.
//
// Every part is a layer of the model, for all ways to split. Parts of one stage run as one, or
// where some run twice (PipelineOptions::activation_checkpoint) in pieces, each made by a call of
// the factory: random numbers in forward are keyed by the first of the stage, so that bits with
// dropout depend on the cuts; without Model::fuse every part is a module of its own (and the
// factory called once for each), and they do not. Model::inputs are what parts read and none
// writes, Model::outputs what the last writes; both may be changed.
//
// Throws Error(kUsage) for parts that are not in the module and names that are not parts; building
// the stages throws it for a factory that leaves out what is kept, or makes a parameter that is
// not.
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
