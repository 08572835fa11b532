#include "layer/declared_slices.h"

#include <algorithm>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "layer/slice.h"
#include "plan/slices.h"
#include "sluice/error.h"

namespace sluice {
namespace {

[[noreturn]] void refuse_slices(const std::string& what, const std::string& name,
                                const std::string& remedy) {
  throw Error(ErrorKind::kUsage,
              {.what = what, .where = "'" + name + "', ParameterSlices", .remedy = remedy});
}

void require_one_slice(const ParameterSlices& held, const std::string& name) {
  const auto& [begin, end, count] = held.slices;
  if (begin < 0 || begin >= end || end > count)
    refuse_slices(formatted("slices {} to {} are not a range of {} slices", begin, end, count),
                  name, "give a range that has at least one of the slices");
  if (held.slices.size() == 1) return;
  refuse_slices(
      formatted("one variable stands for slices {} to {} of a weight that all slices share", begin,
                end),
      name,
      "make a variable for each slice, and name the first in "
      "ParameterSlices::first_use of the others");
}

}  // namespace

DeclaredSlices::DeclaredSlices(const LayerSpec& layer, const torch::nn::Module& module)
    : layer_(layer), declared_(layer.slices) {
  for (const auto& item : module.named_modules()) {
    const auto* sliced = dynamic_cast<const SlicedModule*>(item.value().get());
    if (!sliced) continue;
    const std::string prefix = item.key().empty() ? "" : item.key() + ".";
    for (auto& [name, held] : sliced->slices()) {
      ParameterSlices& added = declared_.emplace_back(prefix + name, std::move(held)).second;
      if (!added.first_use.empty()) added.first_use = prefix + added.first_use;
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, held] : declared_) {
    if (std::find(names.begin(), names.end(), name) != names.end())
      refuse_slices("its slices are declared twice", layer.full_name(name),
                    "declare them in the module itself or in LayerSpec::slices, not in both");
    names.push_back(name);
  }
}

void DeclaredSlices::fill(ParameterInfo& info, const std::string& inside) const {
  const std::vector<std::int64_t> sizes = info.tensor.sizes().vec();
  info.global_shape = sizes;
  const auto found = std::find_if(declared_.begin(), declared_.end(),
                                  [&](const auto& declared) { return declared.first == inside; });
  if (found == declared_.end()) return;
  const ParameterSlices& held = found->second;
  info.global_shape = held.global_shape;
  info.split = held.split;
  info.slices = held.slices;
  info.summed = held.summed;
  info.of_expert = held.of_expert;
  if (!held.first_use.empty()) info.tied_to = layer_.full_name(held.first_use);
  if (!held.split) require_one_slice(held, info.name);
  const std::vector<std::int64_t> expected =
      held.split ? detail::sliced_shape(held.global_shape, *held.split, held.slices, info.name)
                 : held.global_shape;
  if (sizes == expected) return;
  refuse_slices(formatted("{} are {}, but its tensor is {}", held_text(info), shape_text(expected),
                          shape_text(sizes)),
                info.name, "give the tensor the shape of its slices");
}

void DeclaredSlices::require_all_found(const std::vector<std::string>& parameters) const {
  for (const auto& [name, held] : declared_) {
    if (std::find(parameters.begin(), parameters.end(), name) == parameters.end())
      refuse_slices("slices are declared for a name that is not a parameter",
                    layer_.full_name(name), suggest_name(name, parameters));
  }
}

}  // namespace sluice
