// Cuts before or after named layers, or takes a list of modules per stage.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/format.h"
#include "base/nearest_name.h"
#include "plan/partition/convention.h"
#include "plan/partition/shares.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

std::string in_quotes(const std::string& name) { return "'" + name + "'"; }

std::string without_digits(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

std::string quoted_list(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i ? ", " : "") + in_quotes(names[i]);
  }
  if (names.size() > kShown) text += formatted(" and {} more", names.size() - kShown);
  return text;
}

class NameIndex {
 public:
  explicit NameIndex(const LayerNames& layers) : layers_(layers) {
    for (std::size_t i = 0; i < layers.names.size(); ++i) {
      for (const std::string& name : layers.names[i]) {
        position_[name] = static_cast<int>(i);
        all_.push_back(name);
      }
    }
  }

  const int* find(const std::string& name) const {
    const auto found = position_.find(name);
    return found == position_.end() ? nullptr : &found->second;
  }

  [[noreturn]] void unknown(const std::string& what, const std::string& name) const {
    // If a name differs from known ones only in digits, report the valid range instead of a similar
    // name.
    const bool is_beyond = std::any_of(all_.begin(), all_.end(), [&](const std::string& other) {
      return without_digits(other) == without_digits(name);
    });
    const std::string near = is_beyond ? std::string() : nearest_name(name, all_);
    refuse("unknown name " + in_quotes(name) + " in the " + what,
           (near.empty() ? "" : "did you mean " + in_quotes(near) + "? ") + range());
  }

  std::string range() const {
    if (layers_.num_decoders == 0) return "the model has no decoder layers";
    return "layers are " + in_quotes(layers_.names[layers_.position(0)].front()) + " to " +
           in_quotes(layers_.names[layers_.position(layers_.num_decoders - 1)].front());
  }

 private:
  const LayerNames& layers_;
  std::unordered_map<std::string, int> position_;
  std::vector<std::string> all_;
};

// Returns the layers' indices, which must ascend. At an index in [min, max], a cut leaves layers on
// each side.
std::vector<int> ascending_positions(const LayerNames& layers, const std::string& what,
                                     const std::vector<std::string>& names, int min, int max,
                                     bool decoders_only) {
  const NameIndex index(layers);
  std::vector<int> positions;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int* position = index.find(names[i]);
    const bool decoder = position && *position >= layers.first_decoder &&
                         *position < layers.position(layers.num_decoders);
    if (!position) index.unknown(what, names[i]);
    if (decoders_only && !decoder) {
      refuse(in_quotes(names[i]) + " in the " + what + " is not a decoder layer", index.range());
    }
    if (*position < min || *position > max) {
      refuse(in_quotes(names[i]) + " in the " + what + " would leave a stage empty",
             "name a layer between " + in_quotes(layers.names[min].front()) + " and " +
                 in_quotes(layers.names[max].front()));
    }
    if (!positions.empty() && *position == positions.back()) {
      refuse(in_quotes(names[i]) + " appears twice in the " + what, "keep one of them");
    }
    if (!positions.empty() && *position < positions.back()) {
      refuse(in_quotes(names[i]) + " comes after " + in_quotes(names[i - 1]) + " in the " + what +
                 ", but before it in the model",
             "sort them");
    }
    positions.push_back(*position);
  }
  return positions;
}

void require_every_layer(const LayerNames& layers, const std::set<std::string>& listed) {
  std::vector<std::string> lost;
  for (const std::vector<std::string>& names : layers.names) {
    for (const std::string& name : names) {
      if (!listed.count(name)) lost.push_back(name);
    }
  }
  if (!lost.empty()) {
    refuse(quoted_list(lost) + (lost.size() == 1 ? " is" : " are") + " on no stage of the modules",
           "list every layer once");
  }
}

}  // namespace

Split split_before(const LayerNames& layers, const std::vector<std::string>& points,
                   bool decoders_only) {
  std::vector<int> starts = {0};
  for (const int position : ascending_positions(layers, "split points", points, 1,
                                                layers.num_layers - 1, decoders_only)) {
    starts.push_back(position);
  }
  return split_at(layers, std::move(starts));
}

Split split_after(const LayerNames& layers, const std::vector<std::string>& cuts) {
  std::vector<int> starts = {0};
  for (const int position :
       ascending_positions(layers, "cuts", cuts, 0, layers.num_layers - 2, false)) {
    starts.push_back(position + 1);
  }
  return split_at(layers, std::move(starts));
}

Split split_as_listed(const LayerNames& layers, const ModuleNames& modules) {
  const NameIndex index(layers);
  std::set<std::string> listed;
  Split split;
  split.modules = modules;
  int previous_last = -1;
  std::string previous_name;
  for (std::size_t s = 0; s < modules.size(); ++s) {
    const std::string stage = "stage " + std::to_string(s);
    int first = layers.num_layers, last = -1;
    std::string first_name, last_name;
    std::set<std::string> on_stage;
    for (const std::string& name : modules[s]) {
      const int* position = index.find(name);
      const bool stateless = std::count(layers.stateless.begin(), layers.stateless.end(), name) > 0;
      const bool extra = std::count(layers.extras.begin(), layers.extras.end(), name) > 0;
      if (!position && !stateless && !extra) index.unknown("modules of " + stage, name);
      const bool repeated = !on_stage.insert(name).second || (!stateless && listed.count(name) > 0);
      if (repeated) {
        refuse(in_quotes(name) + " appears twice in the modules, again on " + stage,
               "list it once");
      }
      listed.insert(name);
      if (!position) continue;
      if (*position < first) std::tie(first, first_name) = std::pair(*position, name);
      if (*position > last) std::tie(last, last_name) = std::pair(*position, name);
    }
    if (last < 0)
      refuse(stage + " of the modules has no layer of the model", "leave the stage out");
    if (first <= previous_last) {
      refuse(in_quotes(first_name) + " on " + stage + " of the modules does not come after " +
                 in_quotes(previous_name) + " on the stage before",
             "stages hold consecutive layers in the order of the model");
    }
    split.starts.push_back(s == 0 ? 0 : first);
    if (s > 0) split.split_points.push_back(first_name);
    previous_last = last;
    previous_name = last_name;
  }
  require_every_layer(layers, listed);
  return split;
}

}  // namespace sluice::detail
