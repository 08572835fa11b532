#include "sluice/parts/whole_module.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <typeinfo>

#include "base/format.h"
#include "base/log.h"
#include "base/nearest_name.h"
#include "layer/crash_word.h"
#include "layer/deferred.h"
#include "layer/module_parts.h"
#include "layer/owner_of.h"
#include "sluice/error.h"
#include "sluice/layer.h"

namespace sluice::detail {
namespace {

using Names = std::vector<std::string>;
using torch::nn::Module;

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void refuse(const std::string& what, const std::string& where,
                         const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = where, .remedy = remedy});
}

std::string range_of(const Names& parts) {
  if (parts.size() == 1) return "part '" + parts.front() + "'";
  return formatted("parts '{}' to '{}'", parts.front(), parts.back());
}

// True for the empty module that replaces a dropped submodule.
bool is_empty(const Module& module) {
  return typeid(module) == typeid(Module) && module.children().empty() &&
         module.parameters(/*recurse=*/false).empty() && module.buffers(/*recurse=*/false).empty();
}

bool has_part(const Module& root, const std::string& part) {
  const Module* module = &root;
  std::string rest = part;
  while (true) {
    const auto parameters = module->named_parameters(/*recurse=*/false);
    if (const auto* own = parameters.find(rest)) return own->defined();
    const std::size_t dot = rest.find('.');
    const auto children = module->named_children();
    const auto* child = children.find(rest.substr(0, dot));
    if (!child) return false;
    module = child->get();
    if (dot == std::string::npos) return !is_empty(*module);
    rest.erase(0, dot + 1);
  }
}

// Calls the user's factory so that only the parts in `kept` take memory.
class Factory {
 public:
  explicit Factory(WholeModule whole) : whole_(std::move(whole)) {}

  const WholeModule& whole() const { return whole_; }
  std::shared_ptr<Module> make(const Kept& kept, Drawn drawn) const {
    return made([&] { return make_with_memory_for_kept([&] { return call(kept); }, drawn); }, kept);
  }
  std::shared_ptr<Module> make_for_names() const {
    return made([&] { return make_names([&] { return call(Kept()); }); }, Kept());
  }

 private:
  std::shared_ptr<Module> made(const ModuleMaker& without_memory, const Kept& kept) const {
    if (whole_.is_ready || needs_memory_ || is_making_without_memory()) return call(kept);
    try {
      return without_memory();
    } catch (const c10::Error& error) {
      std::shared_ptr<Module> module = call(kept);  // may throw the factory's exception
      if (!needs_memory_.exchange(true)) warn(error.what_without_backtrace());
      return module;
    }
  }

  // The scope gives the factory the same random numbers on every stage, even if it draws for all
  // parts and drops some.
  std::shared_ptr<Module> call(const Kept& kept) const {
    const KeyedRandomScope scope(0, 0, whole_.class_name, 0);
    std::shared_ptr<Module> module = whole_.make(kept);
    if (!module) refuse("the factory made no module", whole_.class_name, "return one");
    return module;
  }

  void warn(const std::string& reason) const {
    log_warning(formatted(
        "the factory of {} allocates the whole module, once for every stage, until it returns: {}; "
        "give the device (torch::kCPU) of tensors whose memory a constructor accesses",
        whole_.class_name, reason.substr(0, reason.find('\n'))));
  }

  const WholeModule whole_;
  mutable std::atomic<bool> needs_memory_ =
      false;  // atomic: ranks that are threads call make() concurrently
};

class Tree {
 public:
  Tree(std::shared_ptr<const Factory> factory, const std::vector<PlacedPart>& parts,
       const ModuleTree& given)
      : factory_(std::move(factory)), ties_(given.ties) {
    for (const PlacedPart& placed : parts) {
      LayerSpec& layer = layers_.emplace_back();
      layer.name = placed.part.name;
      layer.prefix = "";
      layer.reads = placed.part.reads;
      layer.writes = placed.part.writes;
      layer.role = placed.role;
      layer.class_name = placed.class_name;
      names_.push_back(layer.name);
    }
    for (const auto& tie : ties_) {
      for (const std::string& name : {tie.first, tie.second}) {
        if (owner_of(name, layers_) < 0)
          refuse("'" + name + "' of the ties is in no part", class_name(),
                 suggest_name(name, names_));
      }
    }
  }

  const std::vector<LayerSpec>& layers() const { return layers_; }

  std::shared_ptr<Module> make(const Names& parts, Drawn drawn) const {
    const Kept kept(parts, names_);
    if (is_ready() && !kept.all()) {
      refuse(formatted("this {} is ready made, but a stage of {} parts keeps {} only", class_name(),
                       names_.size(), range_of(parts)),
             "from_module",
             "give from_module a factory, [](const sluice::Kept& kept) { .. }, which is called "
             "once for every stage");
    }
    std::shared_ptr<Module> module = factory_->make(kept, drawn);
    require_kept(*module, parts);
    return module;
  }

  std::function<Outputs(Module& module, const Values& in)> forward(
      const Names& parts, const std::string& shown_as) const {
    const auto& run = factory_->whole().forward;
    if (parts.size() == names_.size()) return run;
    return [run, word = "a null pointer in the forward of " + shown_as +
                        "; is it an element that this stage does not keep? "
                        "Look before it runs: if (auto* block = "
                        "module->as<Block>()) x = block->forward(x)"](Module& module,
                                                                      const Values& in) {
      const CrashWord null_pointer(word);
      return run(module, in);
    };
  }
  bool is_ready() const { return factory_->whole().is_ready; }
  const std::string& class_name() const { return factory_->whole().class_name; }

  std::vector<std::pair<std::string, std::string>> ties_of(const Names& parts) const {
    std::vector<std::pair<std::string, std::string>> ties;
    for (const auto& tie : ties_) {
      if (contains(parts, layers_[owner_of(tie.first, layers_)].name)) ties.push_back(tie);
    }
    return ties;
  }

 private:
  [[noreturn]] void refuse_left_over(const std::string& name, const std::string& part,
                                     const Names& parts) const {
    const char* otherwise = part == name ? ": an own parameter cannot be taken out again"
                                         : ", or take it out with drop_unkept";
    refuse("parameter '" + name + "' is left over in the stage of " + range_of(parts), class_name(),
           formatted("make '{}' only where kept(\"{}\") is true{}", part, part, otherwise));
  }

  void require_kept(const Module& module, const Names& parts) const {
    for (const std::string& part : parts) {
      if (has_part(module, part)) continue;
      refuse(formatted("the module that the factory made has no '{}', which the stage of {} keeps",
                       part, range_of(parts)),
             class_name(), "make it wherever kept(\"" + part + "\") is true");
    }
    std::map<const void*, std::string> seen;
    for (const auto& item : module.named_parameters()) {
      if (!item.value().defined()) continue;
      const std::string& name = item.key();
      const int owner = owner_of(name, layers_);
      if (owner < 0)
        refuse("parameter '" + name + "' is in no part", class_name(),
               "name it, or what holds it, in ModuleTree::parts");
      const std::string& part = layers_[owner].name;
      if (!contains(parts, part)) refuse_left_over(name, part, parts);
      const auto [other, added] = seen.emplace(item.value().unsafeGetTensorImpl(), name);
      if (!added && owner_of(other->second, layers_) != owner)
        refuse(formatted("parameter '{}' is the same tensor as '{}'", name, other->second),
               class_name(), "give each its own tensor, and name the two in ModuleTree::ties");
    }
  }

  std::shared_ptr<const Factory> factory_;
  std::vector<std::pair<std::string, std::string>> ties_;
  std::vector<LayerSpec> layers_;
  Names names_;
};

Names reads_of(const std::vector<LayerSpec>& layers) {
  Names reads;
  std::set<std::string> made;
  for (const LayerSpec& layer : layers) {
    for (const std::string& name : layer.reads)
      if (!made.contains(name) && !contains(reads, name)) reads.push_back(name);
    made.insert(layer.writes.begin(), layer.writes.end());
  }
  return reads;
}

decltype(LayerSpec::initialize) initialize_of(const std::vector<LayerSpec>& layers) {
  const auto has_own = [](const LayerSpec& layer) { return bool(layer.initialize); };
  if (std::none_of(layers.begin(), layers.end(), has_own)) return nullptr;
  if (!std::all_of(layers.begin(), layers.end(), has_own))
    refuse("only some parts of a stage have an initialize function", "LayerSpec::initialize",
           "give it to all of them, or set Model::initialization");
  return [layers](const std::string& name, const std::string& key, at::Tensor& value,
                  std::uint64_t seed) {
    layers.at(owner_of(name, layers)).initialize(name, key, value, seed);
  };
}

LayerSpec fuse(const std::shared_ptr<const Tree>& tree, const std::vector<LayerSpec>& layers,
               const Names& leaving) {
  Names parts, made;
  for (const LayerSpec& layer : layers) {
    parts.push_back(layer.name);
    made.insert(made.end(), layer.writes.begin(), layer.writes.end());
  }
  LayerSpec fused = layers.front();
  fused.reads = reads_of(layers);
  fused.writes.clear();
  for (const std::string& name : leaving)
    if (contains(made, name)) fused.writes.push_back(name);
  fused.ties = tree->ties_of(parts);
  fused.shown_as = formatted("{}, {}", tree->class_name(), range_of(parts));
  fused.forward = [forward = tree->forward(parts, fused.shown_as), where = fused.shown_as,
                   reads = fused.reads,
                   writes = fused.writes](Module& module, const std::vector<at::Tensor>& inputs) {
    Values in;
    for (std::size_t i = 0; i < reads.size(); ++i) in.set(reads[i], inputs[i]);
    return forward(module, in).named(writes, where);
  };
  if (layers.size() > 1) {
    fused.shapes = nullptr;
    fused.cost.reset();
    fused.initialize = initialize_of(layers);
  }
  fused.make = [tree, parts, drawn = fused.initialize ? Drawn::kNone : Drawn::kByDefault] {
    return tree->make(parts, drawn);
  };
  return fused;
}

}  // namespace

void refuse_module(const Module& module, const std::string& class_name) {
  refuse(formatted("forward takes {}, but the stage has a {}", class_name, module.name()),
         "from_module", "let the parallelize hook return a module of the same class");
}

Model from_module(WholeModule whole, const ModuleTree& given) {
  const auto factory = std::make_shared<const Factory>(std::move(whole));
  const std::vector<PlacedPart> parts =
      place_parts(given, is_complete(given) ? nullptr : factory->make_for_names().get());
  const auto tree = std::make_shared<const Tree>(factory, parts, given);

  Model model;
  for (const LayerSpec& layer : tree->layers()) {
    LayerSpec alone = fuse(tree, {layer}, layer.writes);
    // Keep the factory's values, because the user's initialize function may skip parameters.
    alone.make = [tree, part = layer.name] { return tree->make({part}, Drawn::kNone); };
    // Keep the module's present weights.
    if (tree->is_ready())
      alone.initialize = [](const std::string&, const std::string&, at::Tensor&, std::uint64_t) {};
    model.layers.push_back(std::move(alone));
  }
  model.inputs = reads_of(tree->layers());
  model.outputs = tree->layers().back().writes;
  model.fuse = [tree](const std::vector<LayerSpec>& layers, const Names& leaving) {
    return fuse(tree, layers, leaving);
  };
  return model;
}

}  // namespace sluice::detail
