// Translates between stages of a model and the texts and module lists of other trainers.
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "plan/partition/layout_text.h"
#include "plan/partition/shares.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// Which layers each letter of a layout stands for. L holds [tail, num_layers).
struct LayoutLayers {
  int first = 0, last = 0;  // decoder layers
  int tail = 0;
  int num_layers = 0;

  explicit LayoutLayers(const ModelSpec& model) {
    std::tie(first, last) = model.block_range();
    num_layers = static_cast<int>(model.layers.size());
    tail = last;
    while (tail < num_layers && model.layers[tail].class_name == kMtpClass) ++tail;
  }
  int num_mtp() const { return tail - last; }
};

int count_of(const std::vector<std::string>& stages, char letter) {
  int count = 0;
  for (const std::string& stage : stages)
    count += static_cast<int>(std::count(stage.begin(), stage.end(), letter));
  return count;
}

void require_number(const std::vector<std::string>& stages, char letter, int wanted,
                    const char* what) {
  const int found = count_of(stages, letter);
  if (found == wanted) return;
  refuse(formatted("the layout has {} {} times, but the model has {}", std::string(1, letter),
                   found, counted(wanted, what)),
         formatted("write {} as often as the model has {}s", std::string(1, letter), what));
}

void require_sorted(const std::vector<std::string>& stages) {
  const std::string order = "EtmL";
  std::string all;
  for (const std::string& stage : stages) all += stage;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (order.find(all[i - 1]) <= order.find(all[i])) continue;
    refuse(
        formatted("the layout has {} after {}", std::string(1, all[i]), std::string(1, all[i - 1])),
        "keep the model's order: E, t, m, L");
  }
}

ModuleNames modules_of_text(const ModelSpec& model, const std::string& text) {
  const std::vector<std::string> stages = expand_layout(text);
  const LayoutLayers layers(model);
  require_number(stages, 'E', 1, "embedding");
  require_number(stages, 't', layers.last - layers.first, "decoder layer");
  require_number(stages, 'm', layers.num_mtp(), "MTP layer");
  require_number(stages, 'L', 1, "head");
  require_sorted(stages);
  ModuleNames modules;
  int next = 0;
  for (const std::string& stage : stages) {
    std::vector<std::string>& names = modules.emplace_back();
    for (const char letter : stage) {
      const int end = letter == 'E' ? layers.first : letter == 'L' ? layers.num_layers : next + 1;
      for (; next < end; ++next) {
        const std::vector<std::string> own = model.layers[next].module_names();
        names.insert(names.end(), own.begin(), own.end());
      }
    }
    if (names.empty()) {
      refuse(formatted("stage {} of the layout has no layer of the model", modules.size() - 1),
             "give every stage a layer; sluice has no empty stages");
    }
  }
  return modules;
}

bool is_rotary(std::string_view name) { return name.substr(name.rfind('.') + 1) == "rotary_emb"; }

ModuleNames with_own_names(const ModelSpec& model, const ModuleNames& lists) {
  const LayerNames own = hf_names(model);
  std::map<std::string, int> known, others;
  for (int i = 0; i < own.num_layers; ++i)
    for (const std::string& name : own.names[i]) known.emplace(name, i);
  for (const char* head : {"lm_head", "output"}) {
    const LayerNames titan = titan_names(model, head);
    for (int i = 0; i < own.num_layers; ++i)
      for (const std::string& name : titan.names[i]) others.emplace(name, i);
  }
  ModuleNames modules;
  for (const std::vector<std::string>& list : lists) {
    std::vector<std::string>& names = modules.emplace_back();
    for (const std::string& name : list) {
      const auto other = others.find(name);
      if (known.contains(name) || (other == others.end() && !is_rotary(name))) {
        names.push_back(name);
      } else if (other != others.end()) {
        const std::vector<std::string>& of_layer = own.names[other->second];
        names.insert(names.end(), of_layer.begin(), of_layer.end());
      }
    }
  }
  return modules;
}

}  // namespace

ModuleNames parse_module_lists(const std::string& text, const std::string& option) {
  Json document;
  try {
    document = parse_strict_json(text, option);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage,
                {.what = error.fact(), .where = error.where(), .remedy = error.remedy()});
  }
  const auto is_list_of = [](const Json& list, auto is_item) {
    return list.is_array() && !list.empty() && std::ranges::all_of(list.list(), is_item);
  };
  const bool valid = is_list_of(document, [&](const Json& stage) {
    return is_list_of(stage, [](const Json& name) { return name.is_string(); });
  });
  if (!valid) {
    refuse(option + " must be a list of stages, each a list of names",
           R"(write [["model.embed_tokens","model.layers.0"],["model.layers.1",...]])");
  }
  ModuleNames names;
  for (const Json& stage : document.list()) {
    names.emplace_back();
    for (const Json& name : stage.list()) names.back().push_back(name.text());
  }
  return names;
}

ModuleNames modules_of_layout(const ModelSpec& model, const std::string& text) {
  const std::string_view trimmed = trim(text);
  return trimmed.starts_with('[') ? with_own_names(model, parse_module_lists(text, "--layout"))
                                  : modules_of_text(model, std::string(trimmed));
}

std::vector<std::string> layout_of(const ModelSpec& model, const Partition& partition) {
  const LayoutLayers layers(model);
  std::vector<std::string> stages;
  for (const StageContent& stage : partition.stages) {
    std::string& text = stages.emplace_back();
    const int begin = stage.layers.front(), end = stage.layers.back() + 1;
    const auto is_inside = [&](int from, int to) {
      return (begin > from && begin < to) || (end > from && end < to);
    };
    if (is_inside(0, layers.first) || is_inside(layers.tail, layers.num_layers)) {
      refuse(formatted("stage {} holds only a part of the {}", stage.stage,
                       end < layers.first ? "embedding" : "norm and head"),
             "keep the layers before the first decoder layer, and those after the last one, "
             "together");
    }
    if (begin < layers.first || (begin == 0 && layers.first == 0)) text += 'E';
    const auto overlap = [&](int from, int to) {
      return static_cast<std::size_t>(std::max(0, std::min(end, to) - std::max(begin, from)));
    };
    text.append(overlap(layers.first, layers.last), 't');
    text.append(overlap(layers.last, layers.tail), 'm');
    if (end == layers.num_layers) text += 'L';
  }
  return stages;
}

}  // namespace sluice::detail
