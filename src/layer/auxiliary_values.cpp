#include "layer/auxiliary_values.h"

#include <algorithm>

#include "base/name_pattern.h"
#include "base/nearest_name.h"
#include "sluice/error.h"

namespace sluice {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "Model::auxiliary", .remedy = remedy});
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void require_auxiliary(const Model& model) {
  for (const AuxiliaryLoss& loss : model.auxiliary) {
    std::vector<std::string> written, found;
    for (const LayerSpec& layer : model.layers) {
      for (const std::string& name : layer.writes) {
        written.push_back(name);
        if (!matches_pattern(loss.value, name)) continue;
        if (holds(found, name))
          refuse("two layers write the auxiliary loss '" + name + "'",
                 "give it another name in every layer, and a pattern in Model::auxiliary");
        found.push_back(name);
      }
    }
    if (found.empty())
      refuse("no layer writes '" + loss.value + "'", suggest_name(loss.value, written));
    for (const std::string& name : found) {
      for (const AuxiliaryLoss& other : model.auxiliary) {
        if (&other != &loss && matches_pattern(other.value, name))
          refuse("'" + loss.value + "' and '" + other.value + "' both match '" + name + "'",
                 "give every auxiliary loss one scale");
      }
      const auto reader =
          std::find_if(model.layers.begin(), model.layers.end(),
                       [&](const LayerSpec& layer) { return holds(layer.reads, name); });
      if (reader != model.layers.end() || holds(model.outputs, name))
        refuse("the auxiliary loss '" + name + "' is read by " +
                   (reader != model.layers.end() ? "layer '" + reader->name + "'"
                                                 : std::string("the loss (Model::outputs)")),
               "write it under a name that is not read");
    }
  }
}

bool is_auxiliary(const Model& model, const std::string& value) {
  return std::any_of(model.auxiliary.begin(), model.auxiliary.end(),
                     [&](const AuxiliaryLoss& loss) { return matches_pattern(loss.value, value); });
}

std::vector<std::string> auxiliary_values(const Model& model, const std::vector<int>& layers) {
  std::vector<std::string> values;
  for (const int layer : layers) {
    for (const std::string& name : model.layers[layer].writes) {
      if (is_auxiliary(model, name)) values.push_back(name);
    }
  }
  return values;
}

}  // namespace sluice
