#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/format.h"
#include "plan/partition/convention.h"
#include "plan/partition/shares.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

struct GivenOption {
  const char* what;  // completes "convention X has no ..."
  bool given;
  bool ConventionRules::*applies;
};

std::string conventions_with(bool ConventionRules::*applies) {
  std::string names;
  for (const ConventionRules& convention : conventions()) {
    if (convention.*applies) names += (names.empty() ? "" : ", ") + convention.name;
  }
  return names;
}

void require_applicable(const ConventionRules& convention, const PartitionOptions& options) {
  const std::vector<GivenOption> all = {
      {"split points", !options.split_points.empty(), &ConventionRules::split_points},
      {"cuts", !options.cuts.empty(), &ConventionRules::cuts},
      {"modules", !options.modules.empty(), &ConventionRules::modules},
      {"`layers_per_stage`", options.layers_per_stage != 0, &ConventionRules::layers_per_stage},
      {"rounding of the number of stages", options.rounding != Rounding::kNone,
       &ConventionRules::rounding},
      {"weight of the first stage", options.first_stage_weight.has_value(),
       &ConventionRules::weights},
      {"weight of the last stage", options.last_stage_weight.has_value(),
       &ConventionRules::weights},
      {"remainder", options.remainder.has_value(), &ConventionRules::remainder},
      {"option to leave out embeddings", !options.embeddings, &ConventionRules::ends},
      {"option to leave out the head", !options.lm_head, &ConventionRules::ends},
      {"option to leave out rotary embeddings", !options.rotary, &ConventionRules::ends},
      {"multimodal encoders", options.multimodal, &ConventionRules::ends},
      {"extra modules", !options.extra_modules.empty(), &ConventionRules::ends},
      {"prefix", options.prefix.has_value(), &ConventionRules::ends},
      {"name of the head", options.lm_head_name.has_value(), &ConventionRules::ends}};
  for (const GivenOption& option : all) {
    if (!option.given || convention.*option.applies) continue;
    refuse("convention " + convention.name + " has no " + option.what,
           "leave it out, or use one of these conventions: " + conventions_with(option.applies));
  }
}

// Layer names determine the split. Without names, only one count may be given.
void require_one_source(const PartitionOptions& options) {
  std::vector<std::string> names, counts;
  if (!options.split_points.empty()) names.push_back("split points");
  if (!options.cuts.empty()) names.push_back("cuts");
  if (!options.modules.empty()) names.push_back("modules");
  if (options.num_stages != 0) counts.push_back("the number of stages");
  if (options.stages_per_rank != 0) counts.push_back("stages per rank");
  if (options.layers_per_stage != 0) counts.push_back("`layers_per_stage`");
  const auto only_one = [](const std::vector<std::string>& given) {
    if (given.size() > 1) refuse(given[0] + " and " + given[1] + " exclude each other", "give one");
  };
  only_one(names);
  only_one(counts);
  if (options.rounding != Rounding::kNone && (options.num_stages != 0 || !names.empty())) {
    refuse("rounding has no meaning when the stages are given", "round with `layers_per_stage`");
  }
  if (!has_names(options)) return;
  std::vector<std::string> counted_options;
  if (options.layers_per_stage != 0) counted_options.push_back("`layers_per_stage`");
  if (options.first_stage_weight) counted_options.push_back("a weight of the first stage");
  if (options.last_stage_weight) counted_options.push_back("a weight of the last stage");
  if (options.remainder) counted_options.push_back("a remainder");
  if (!options.modules.empty() && (!options.embeddings || !options.lm_head)) {
    counted_options.push_back("leaving out an end");
  }
  if (!counted_options.empty()) {
    refuse(names[0] + " and " + counted_options[0] + " exclude each other", "give one of them");
  }
}

// Splits that balance costs accept only options that set the number of stages.
void require_costs_alone(const ConventionRules& convention, const PartitionOptions& options) {
  const std::pair<bool, const char*> others[] = {
      {!options.split_points.empty(), "split points"},
      {!options.cuts.empty(), "cuts"},
      {!options.modules.empty(), "modules"},
      {options.layers_per_stage != 0, "`layers_per_stage`"},
      {options.first_stage_weight.has_value(), "a weight of the first stage"},
      {options.last_stage_weight.has_value(), "a weight of the last stage"},
      {options.remainder.has_value(), "a remainder"}};
  for (const auto& [given, what] : others) {
    if (given)
      refuse("a split by costs and " + std::string(what) + " exclude each other",
             "give one of them");
  }
  if (convention.ends) {
    refuse("convention " + convention.name + " has no split by costs",
           "use `partition_convention` = \"sluice\"");
  }
}

void require_counts(const PartitionOptions& options) {
  require_count("the number of ranks", options.num_ranks, 0);
  require_count("the number of stages", options.num_stages, 0);
  require_count("the number of stages per rank", options.stages_per_rank, 0);
  require_count("`layers_per_stage`", options.layers_per_stage, 0);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

int position_of(const LayerNames& layers, const std::string& name) {
  for (std::size_t i = 0; i < layers.names.size(); ++i) {
    if (contains(layers.names[i], name)) return static_cast<int>(i);
  }
  return -1;
}

bool is_known(const LayerNames& layers, const std::string& name) {
  return position_of(layers, name) >= 0 || contains(layers.stateless, name) ||
         contains(layers.extras, name);
}

std::string foreign_name(const LayerNames& own, const std::vector<std::string>& names) {
  std::unordered_set<std::string> known(own.stateless.begin(), own.stateless.end());
  known.insert(own.extras.begin(), own.extras.end());
  for (const std::vector<std::string>& of : own.names) known.insert(of.begin(), of.end());
  for (const std::string& name : names) {
    if (!known.contains(name)) return name;
  }
  return {};
}

// `applies` is the ConventionRules member for option `what`.
void require_own_names(const ConventionRules& convention, const ModelSpec& model,
                       const PartitionOptions& options, const char* what,
                       const std::vector<std::string>& names, bool ConventionRules::*applies) {
  if (names.empty()) return;
  const LayerNames own = convention.names(model, options);
  const std::string name = foreign_name(own, names);
  if (name.empty()) return;
  for (const ConventionRules& other : conventions()) {
    const LayerNames layers = other.names(model, {});
    if (!(other.*applies) || !is_known(layers, name)) continue;
    const int position = position_of(layers, name);
    const bool has_own = position >= 0 && !own.names[position].empty();
    refuse("unknown name '" + name + "' in the " + what,
           "'" + name + "' is a name of convention " + other.name +
               ": set `partition_convention` to that, or " +
               (has_own ? "write '" + own.names[position].front() + "'" : "leave it out"));
  }
  // Another convention may have this layer name, even without such an option.
  for (const ConventionRules& other : conventions()) {
    const LayerNames layers = other.names(model, {});
    const int position = is_known(layers, name) ? position_of(layers, name) : -1;
    if (position < 0 || own.names[position].empty()) continue;
    refuse("unknown name '" + name + "' in the " + what, "'" + name + "' is a name of convention " +
                                                             other.name + ": write '" +
                                                             own.names[position].front() + "'");
  }
}

}  // namespace

bool has_names(const PartitionOptions& options) {
  return !options.split_points.empty() || !options.cuts.empty() || !options.modules.empty();
}

std::vector<std::string> drop_overruled(const ConventionRules& convention,
                                        PartitionOptions& options) {
  if (!convention.names_win || !has_names(options) || options.layers_per_stage == 0) return {};
  const std::string note =
      formatted("`layers_per_stage` = {} is not used: the {} win, as in torchtitan",
                options.layers_per_stage, options.modules.empty() ? "split points" : "modules");
  options.layers_per_stage = 0;
  return {note};
}

void require_own_names(const ConventionRules& convention, const ModelSpec& model,
                       const PartitionOptions& options) {
  std::vector<std::string> modules;
  for (const std::vector<std::string>& stage : options.modules) {
    modules.insert(modules.end(), stage.begin(), stage.end());
  }
  const auto require = [&](const char* what, const std::vector<std::string>& names,
                           bool ConventionRules::*applies) {
    require_own_names(convention, model, options, what, names, applies);
  };
  require("split points", options.split_points, &ConventionRules::split_points);
  require("cuts", options.cuts, &ConventionRules::cuts);
  require("modules", modules, &ConventionRules::modules);
}

const ConventionRules& find_convention(const ConventionName& name) {
  return conventions().at(static_cast<std::size_t>(name.kind()));
}

void check_options(const ConventionRules& convention, const PartitionOptions& options,
                   bool by_costs) {
  require_counts(options);
  require_applicable(convention, options);
  require_one_source(options);
  if (by_costs) require_costs_alone(convention, options);
}

void require_num_stages(const PartitionOptions& options, int num_stages) {
  const std::int64_t asked = options.num_stages != 0
                                 ? options.num_stages
                                 : std::int64_t{options.stages_per_rank} * options.num_ranks;
  if (asked != 0 && asked != num_stages) {
    refuse(
        formatted("the names make {}, but {} are asked for", counted(num_stages, "stage"), asked),
        "give " + counted(asked - 1, "cut") + ", or leave the number of stages out");
  }
}

void require_layers(const ConventionRules& convention, const PartitionOptions& options,
                    int num_stages, int num_decoders) {
  if (!convention.layer_each || num_stages <= num_decoders) return;
  const char* names = !options.split_points.empty() ? "split points"
                      : !options.cuts.empty()       ? "cuts"
                                                    : "modules";
  refuse(counted(num_decoders, "layer") + " cannot fill the " + counted(num_stages, "stage") +
             " that the " + names + " make",
         "use at most as many stages as layers: leave some of the " + std::string(names) + " out");
}

}  // namespace sluice::detail
