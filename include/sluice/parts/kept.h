// Which parts of a whole module a stage keeps, and how a factory leaves out the others.
//
// Owns: Kept, drop_unkept(). Does not own: which parts there are (whole_module.h).
// Thread-safety: values.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class ModuleListImpl;
class ModuleDictImpl;
class SequentialImpl;
}  // namespace torch::nn

namespace sluice {

// Asked by name: of a part, of what holds parts ("layers": whether any of them), or of what is
// inside a part. Converts to std::function<bool(const std::string&)>, so that a class may take it
// without knowing sluice.
class Kept {
 public:
  Kept() = default;  // everything
  Kept(std::vector<std::string> parts, std::vector<std::string> all_parts);

  // Throws Error(kUsage) with the nearest name for one that no part has to do with.
  bool operator()(const std::string& name) const;
  // Whether some part has to do with the name, kept or not.
  bool knows(const std::string& name) const;
  // The same question of names inside a child: under("encoder")("layers.0") is "encoder.layers.0".
  Kept under(const std::string& child) const;

  // Whether there are parts inside what has this name, kept or not.
  bool holds_parts(const std::string& name) const;
  const std::vector<std::string>& parts() const { return parts_; }  // kept, in order
  bool all() const { return parts_.size() == all_parts_.size(); }

 private:
  std::vector<std::string> parts_, all_parts_;
  std::string prefix_;
};

namespace detail {

// Takes out the elements that are not kept, or the child as a whole. Returns what its holder holds
// then: the child, nothing, or in the place of a ModuleList an empty one.
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

// Takes out of a module what a stage does not keep. holders: the members of `parent` that hold its
// children (a torch module such as torch::nn::Linear, or a shared_ptr), since a member outlives
// unregister_module().
//
//   a child that is not kept is unregistered, and its holder empty: `if (norm) x = norm(x);`
//   of a ModuleList, the elements keep their index and those of a ModuleDict their key; where one
//     is not kept stands an empty torch::nn::Module: `if (auto* b = module->as<Block>()) ...`
//   of a Sequential, an Identity stands there, so that it can be called as it is
//   a ModuleList that is not kept at all is empty, so that a loop over it runs no time
//
// A forward that leaves out the `if` follows a null pointer. The process then ends by SIGSEGV, as
// any does, after a line on stderr that names the stage and its parts.
//
// Throws Error(kUsage) for a holder whose module is not registered in `parent`, and for a child
// that is in no part.
template <typename... Holders>
void drop_unkept(torch::nn::Module& parent, const Kept& kept, Holders&... holders) {
  (detail::drop_held(parent, kept, holders), ...);
}

}  // namespace sluice
