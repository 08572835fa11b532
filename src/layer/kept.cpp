#include "sluice/parts/whole_module.h"

#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <typeinfo>

#include "base/nearest_name.h"
#include "sluice/error.h"

namespace sluice {
namespace {

bool concerns(const std::string& name, const std::string& part) {
  return name == part || name.starts_with(part + ".") || part.starts_with(name + ".");
}

bool concerns_any(const std::string& name, const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return concerns(name, part); });
}

std::shared_ptr<torch::nn::Module> nothing() { return std::make_shared<torch::nn::Module>(); }

void drop_elements(torch::nn::ModuleListImpl& list, const Kept& kept) {
  std::size_t i = 0;
  for (std::shared_ptr<torch::nn::Module>& element : list) {
    const std::string key = std::to_string(i++);
    if (!kept(key)) element = list.replace_module(key, nothing());
  }
}

void drop_elements(torch::nn::ModuleDictImpl& dict, const Kept& kept) {
  std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> replaced;
  for (const std::string& key : dict.keys())
    if (!kept(key)) replaced.emplace_back(key, nothing());
  dict.update(replaced);
}

void drop_elements(torch::nn::SequentialImpl& list, const Kept& kept) {
  const std::vector<std::string> keys = list.named_children().keys();
  std::size_t i = 0;
  for (torch::nn::AnyModule& element : list) {
    const std::string& key = keys[i++];
    if (kept(key)) continue;
    element = torch::nn::AnyModule(torch::nn::Identity());
    list.replace_module(key, element.ptr());
  }
}

std::string name_of(const torch::nn::Module& parent,
                    const std::shared_ptr<torch::nn::Module>& child) {
  for (const auto& item : parent.named_children())
    if (item.value() == child) return item.key();
  throw Error(
      ErrorKind::kUsage,
      {.what =
           "a holder's module, of class " + child->name() + ", is not a child of " + parent.name(),
       .where = "drop_unkept",
       .remedy = "pass the module in which it is registered, with kept.under(..) for a child"});
}

}  // namespace

Kept::Kept(std::vector<std::string> parts, std::vector<std::string> all_parts)
    : parts_(std::move(parts)), all_parts_(std::move(all_parts)) {}

bool Kept::operator()(const std::string& name) const {
  const std::string full = prefix_ + name;
  if (all_parts_.empty() || concerns_any(full, parts_)) return true;
  if (knows(name)) return false;
  throw Error(ErrorKind::kUsage,
              {.what = "the factory calls Kept with '" + full +
                       "', which is not a part, contains none and lies in none",
               .where = "Kept",
               .remedy = suggest_name(full, all_parts_) +
                         " (or name it in ModuleTree::parts, as the module does)"});
}

bool Kept::knows(const std::string& name) const {
  return all_parts_.empty() || concerns_any(prefix_ + name, all_parts_);
}

bool Kept::holds_parts(const std::string& name) const {
  const std::string start = prefix_ + name + ".";
  return std::any_of(all_parts_.begin(), all_parts_.end(),
                     [&](const std::string& part) { return part.starts_with(start); });
}

Kept Kept::under(const std::string& child) const {
  Kept inside = *this;
  inside.prefix_ += child + ".";
  return inside;
}

namespace detail {

std::shared_ptr<torch::nn::Module> drop_child(torch::nn::Module& parent, const Kept& kept,
                                              const std::shared_ptr<torch::nn::Module>& child) {
  const std::string name = name_of(parent, child);
  if (!kept.knows(name)) {
    throw Error(ErrorKind::kUsage, {.what = "the module has '" + name + "', which is in no part",
                                    .where = "drop_unkept",
                                    .remedy = "name it in ModuleTree::parts, as the module does"});
  }
  const auto drops_elements = [&](auto* list) {
    if (list) drop_elements(*list, kept.under(name));
    return list != nullptr;
  };
  const bool is_list =
      kept.holds_parts(name) && (drops_elements(child->as<torch::nn::ModuleListImpl>()) ||
                                 drops_elements(child->as<torch::nn::ModuleDictImpl>()) ||
                                 drops_elements(child->as<torch::nn::SequentialImpl>()));
  if (is_list || kept(name)) return child;
  if (typeid(*child) == typeid(torch::nn::ModuleListImpl))
    return parent.replace_module(name, std::make_shared<torch::nn::ModuleListImpl>());
  parent.unregister_module(name);
  return nullptr;
}

}  // namespace detail
}  // namespace sluice
