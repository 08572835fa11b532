#include "sluice/parts/whole_module.h"

#include <algorithm>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice {

std::vector<at::Tensor> Outputs::tensors() const {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : items_) tensors.push_back(tensor);
  return tensors;
}

std::vector<at::Tensor> Outputs::named(const std::vector<std::string>& names,
                                       const std::string& who) const {
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage, {.what = what, .where = who, .remedy = remedy});
  };
  std::vector<std::string> known;
  for (const auto& [name, tensor] : items_)
    if (!name.empty()) known.push_back(name);
  if (known.empty()) {
    if (items_.size() == names.size()) return tensors();
    std::string wanted;
    for (const std::string& name : names) wanted += (wanted.empty() ? "'" : ", '") + name + "'";
    refuse(formatted("forward returned {}, but {} leave the stage: {}",
                     counted(static_cast<std::int64_t>(items_.size()), "tensor"), names.size(),
                     wanted),
           "return these, or Values with their names");
  }
  if (known.size() != items_.size())
    refuse("forward returned tensors with and without names", "name all of them, or none");
  std::vector<at::Tensor> tensors;
  for (const std::string& name : names) {
    const auto found = std::find_if(items_.begin(), items_.end(),
                                    [&](const auto& item) { return item.first == name; });
    if (found == items_.end())
      refuse("forward did not return '" + name + "', which leaves the stage",
             suggest_name(name, known));
    tensors.push_back(found->second);
  }
  return tensors;
}

}  // namespace sluice
