#include "layer/module_parts.h"

#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <functional>
#include <set>
#include <typeinfo>
#include <utility>

#include "base/class_name.h"
#include "base/format.h"
#include "base/nearest_name.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

using torch::nn::Module;

[[noreturn]] void refuse_parts(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "from_module", .remedy = remedy});
}

// True for a container without its own forward, which could do more than call the elements.
bool is_list(const Module& module) {
  return module.as<torch::nn::ModuleListImpl>() || module.as<torch::nn::ModuleDictImpl>() ||
         typeid(module) == typeid(torch::nn::SequentialImpl);
}

bool is_or_is_in(const std::string& name, const std::string& holder) {
  return name == holder || name.starts_with(holder + ".");
}

struct FoundPart {
  std::string name;
  bool in_list = false, of_class = false;
  std::string class_name = {};
};

// Finds the parts of a module that become layers. Descends into lists and modules that contain the
// block class, and keeps others whole.
class PartFinder {
 public:
  PartFinder(const Module& root, std::string block_class) : block_class_(std::move(block_class)) {
    open(root, "", /*in_list=*/false);
    if (!block_class_.empty() && !found_class_) {
      std::set<std::string> classes;
      for (const auto& module : root.modules(/*include_self=*/false))
        classes.insert(short_class_name(module->name()));
      refuse_parts("the module has no '" + block_class_ + "' in it",
                   suggest_name(block_class_, std::vector(classes.begin(), classes.end())));
    }
  }

  std::vector<FoundPart> take() { return std::move(parts_); }

 private:
  bool is_block(const Module& module) const {
    return !block_class_.empty() && is_class(module.name(), block_class_);
  }
  bool contains_blocks(const Module& module) const {
    for (const auto& child : module.modules(/*include_self=*/false)) {
      if (is_block(*child)) return true;
    }
    return false;
  }

  void open(const Module& module, const std::string& prefix, bool in_list) {
    for (const auto& item : module.named_parameters(/*recurse=*/false))
      if (item.value().defined()) parts_.push_back({prefix + item.key()});
    for (const auto& item : module.named_children()) {
      const Module& child = *item.value();
      const std::string name = prefix + item.key();
      if (is_block(child)) {
        found_class_ = true;
        parts_.push_back({name, in_list, /*of_class=*/true, child.name()});
      } else if (block_class_.empty() ? is_list(child) && !in_list : contains_blocks(child)) {
        open(child, name + ".", is_list(child));
      } else {
        parts_.push_back({name, in_list, /*of_class=*/false, child.name()});
      }
    }
  }

  const std::string block_class_;
  bool found_class_ = false;
  std::vector<FoundPart> parts_;
};

std::vector<std::string> names_of(const std::vector<FoundPart>& parts) {
  std::vector<std::string> names;
  for (const FoundPart& part : parts) names.push_back(part.name);
  return names;
}

std::vector<FoundPart> expanded(const Part& part) {
  if (part.length == 0) return {{part.name}};
  std::vector<FoundPart> elements;
  for (int i = 0; i < part.length; ++i)
    elements.push_back({formatted("{}.{}", part.name, i), /*in_list=*/true});
  return elements;
}

void require_distinct(const std::vector<FoundPart>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (i == k || !is_or_is_in(parts[i].name, parts[k].name)) continue;
      if (parts[i].name == parts[k].name) {
        refuse_parts("part '" + parts[i].name + "' is named twice",
                     "name every part once: make a part that forward runs twice, such as a shared "
                     "embedding, two members tied by ModuleTree::ties");
      }
      refuse_parts(formatted("part '{}' is within part '{}'", parts[i].name, parts[k].name),
                   "name every part of the module once");
    }
  }
}

struct Chosen {
  std::vector<FoundPart> found;
  std::vector<Part> parts;
};

Chosen choose(const ModuleTree& tree, const std::vector<FoundPart>& in_module) {
  Chosen chosen;
  std::set<std::string> covered;
  for (const Part& given : tree.parts) {
    std::vector<FoundPart> meant;
    for (const FoundPart& part : in_module)
      if (is_or_is_in(part.name, given.name)) meant.push_back(part);
    if (meant.empty()) {
      refuse_parts("the module has no part '" + given.name + "'",
                   suggest_name(given.name, names_of(in_module)));
    }
    for (FoundPart& part : meant) {
      covered.insert(part.name);
      chosen.parts.push_back({part.name, given.reads, given.writes});
      chosen.found.push_back(std::move(part));
    }
  }
  for (const FoundPart& part : in_module) {
    if (covered.contains(part.name)) continue;
    refuse_parts("'" + part.name + "' of the module is in none of the parts",
                 "name it, or what holds it, where forward runs it");
  }
  return chosen;
}

Chosen all_parts(const ModuleTree& tree, const Module* module) {
  Chosen chosen;
  if (!module) {
    for (const Part& given : tree.parts) {
      for (FoundPart& part : expanded(given)) {
        chosen.parts.push_back({part.name, given.reads, given.writes});
        chosen.found.push_back(std::move(part));
      }
    }
    return chosen;
  }
  std::vector<FoundPart> found = PartFinder(*module, tree.block_class).take();
  if (!tree.parts.empty()) return choose(tree, found);
  for (const FoundPart& part : found) chosen.parts.push_back({part.name});
  if (!found.empty()) {
    chosen.parts.front().reads = {tree.input};
    chosen.parts.back().writes = {tree.output};
  }
  chosen.found = std::move(found);
  return chosen;
}

std::vector<bool> choose_blocks(const ModuleTree& tree, const std::vector<FoundPart>& parts) {
  std::vector<bool> blocks;
  for (const std::string& holder : tree.blocks) {
    const bool found = std::any_of(parts.begin(), parts.end(), [&](const FoundPart& part) {
      return is_or_is_in(part.name, holder);
    });
    if (!found)
      refuse_parts("no part is, or is in, '" + holder + "' of the blocks",
                   suggest_name(holder, names_of(parts)));
  }
  for (const FoundPart& part : parts) {
    if (!tree.block_class.empty()) {
      blocks.push_back(part.of_class);
    } else if (!tree.blocks.empty()) {
      blocks.push_back(
          std::any_of(tree.blocks.begin(), tree.blocks.end(),
                      [&](const std::string& holder) { return is_or_is_in(part.name, holder); }));
    } else {
      blocks.push_back(part.in_list);
    }
  }
  if (std::find(blocks.begin(), blocks.end(), true) == blocks.end())
    blocks.assign(blocks.size(), true);
  return blocks;
}

// Before the blocks, the first part is an embedding. After the blocks, the last part is a head and
// the part before it a norm.
LayerRole role_of(std::size_t i, const std::vector<bool>& blocks) {
  if (blocks[i]) return LayerRole::kBlock;
  const auto first = std::find(blocks.begin(), blocks.end(), true) - blocks.begin();
  const auto after = blocks.rend() - std::find(blocks.rbegin(), blocks.rend(), true);
  const auto position = static_cast<std::ptrdiff_t>(i);
  const auto last = static_cast<std::ptrdiff_t>(blocks.size()) - 1;
  if (i == 0 && position < first) return LayerRole::kEmbedding;
  if (position == last && position >= after) return LayerRole::kHead;
  if (position == last - 1 && position >= after) return LayerRole::kNorm;
  return LayerRole::kOther;
}

}  // namespace

bool is_complete(const ModuleTree& tree) { return !tree.parts.empty() && tree.block_class.empty(); }

std::vector<PlacedPart> place_parts(const ModuleTree& tree, const Module* module) {
  if (!tree.block_class.empty() && !tree.blocks.empty())
    refuse_parts("blocks and block_class are both given", "give one of the two");
  Chosen chosen = all_parts(tree, module);
  if (chosen.parts.empty()) refuse_parts("the module has no children", "give it at least one");
  require_distinct(chosen.found);
  const std::vector<bool> blocks = choose_blocks(tree, chosen.found);
  std::vector<PlacedPart> placed;
  for (std::size_t i = 0; i < chosen.parts.size(); ++i) {
    if (chosen.parts[i].reads.empty())
      refuse_parts("part '" + chosen.parts[i].name + "' reads no value", "name what it reads");
    placed.push_back(
        {std::move(chosen.parts[i]), role_of(i, blocks), std::move(chosen.found[i].class_name)});
  }
  return placed;
}

}  // namespace sluice::detail
