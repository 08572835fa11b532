// Options that contradict each other, or that the convention has no meaning for.
#include <algorithm>

#include "plan/partition/convention.h"
#include "plan/peers/shares.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

struct GivenOption {
  const char* what;  // "convention X has no ..."
  bool given;
  bool Convention::*applies;
};

std::string conventions_with(bool Convention::*applies) {
  std::string names;
  for (const Convention& convention : conventions()) {
    if (convention.*applies) names += (names.empty() ? "" : ", ") + convention.name;
  }
  return names;
}

void require_applicable(const Convention& convention, const PartitionOptions& options) {
  const std::vector<GivenOption> all = {
      {"split points", !options.split_points.empty(), &Convention::split_points},
      {"cuts", !options.cuts.empty(), &Convention::cuts},
      {"modules", !options.modules.empty(), &Convention::modules},
      {"layers_per_stage", options.layers_per_stage != 0, &Convention::layers_per_stage},
      {"rounding of the number of stages", options.rounding != Rounding::kNone,
       &Convention::rounding},
      {"weight of the first stage", options.first_stage_weight.has_value(), &Convention::weights},
      {"weight of the last stage", options.last_stage_weight.has_value(), &Convention::weights},
      {"remainder", options.remainder.has_value(), &Convention::remainder},
      {"option to leave out embeddings", !options.embeddings, &Convention::ends},
      {"option to leave out the head", !options.lm_head, &Convention::ends},
      {"option to leave out rotary embeddings", !options.rotary, &Convention::ends},
      {"multimodal encoders", options.multimodal, &Convention::ends},
      {"extra modules", !options.extra_modules.empty(), &Convention::ends},
      {"prefix", options.prefix.has_value(), &Convention::ends},
      {"name of the head", options.lm_head_name.has_value(), &Convention::ends}};
  for (const GivenOption& option : all) {
    if (!option.given || convention.*option.applies) continue;
    refuse("convention " + convention.name + " has no " + option.what,
           "leave it out, or use a convention that has: " + conventions_with(option.applies));
  }
}

// Names settle everything; counts settle the number of stages in one way.
void require_one_source(const PartitionOptions& options) {
  std::vector<std::string> names, counts;
  if (!options.split_points.empty()) names.push_back("split points");
  if (!options.cuts.empty()) names.push_back("cuts");
  if (!options.modules.empty()) names.push_back("modules");
  if (options.num_stages != 0) counts.push_back("the number of stages");
  if (options.stages_per_rank != 0) counts.push_back("stages per rank");
  if (options.layers_per_stage != 0) counts.push_back("layers_per_stage");
  const auto only_one = [](const std::vector<std::string>& given) {
    if (given.size() > 1) refuse(given[0] + " and " + given[1] + " exclude each other", "give one");
  };
  only_one(names);
  only_one(counts);
  if (options.rounding != Rounding::kNone && (options.num_stages != 0 || !names.empty())) {
    refuse("rounding has no meaning when the stages are given", "round with layers_per_stage");
  }
  if (names.empty()) return;
  std::vector<std::string> counted_options;
  if (options.layers_per_stage != 0) counted_options.push_back("layers_per_stage");
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

void require_counts(const PartitionOptions& options) {
  require_count("the number of ranks", options.num_ranks, 0);
  require_count("the number of stages", options.num_stages, 0);
  require_count("the number of stages per rank", options.stages_per_rank, 0);
  require_count("layers_per_stage", options.layers_per_stage, 0);
}

}  // namespace

const Convention& find_convention(const std::string& name) {
  for (const Convention& convention : conventions()) {
    if (convention.name == name) return convention;
  }
  refuse("unknown partition convention '" + name + "'",
         suggest_name(name, partition_conventions()));
}

void check_options(const Convention& convention, const PartitionOptions& options) {
  require_counts(options);
  require_applicable(convention, options);
  require_one_source(options);
}

// Stages that the names make must be those that the counts ask for.
void require_num_stages(const PartitionOptions& options, int num_stages) {
  const std::int64_t asked = options.num_stages != 0
                                 ? options.num_stages
                                 : std::int64_t{options.stages_per_rank} * options.num_ranks;
  if (asked != 0 && asked != num_stages) {
    refuse("the names make " + counted(num_stages, "stage") + ", but " + std::to_string(asked) +
               " are asked for",
           "give " + counted(asked - 1, "cut") + ", or leave the number of stages out");
  }
}

// A stage may hold an end alone only while the others hold the layers: counts refuse the same.
void require_layers(const Convention& convention, const PartitionOptions& options, int num_stages,
                    int num_decoders) {
  if (!convention.layer_each || num_stages <= num_decoders) return;
  const char* names = !options.split_points.empty() ? "split points"
                      : !options.cuts.empty()       ? "cuts"
                                                    : "modules";
  refuse(counted(num_decoders, "layer") + " cannot fill the " + counted(num_stages, "stage") +
             " that the " + names + " make",
         "use at most as many stages as layers: leave some of the " + std::string(names) + " out");
}

}  // namespace sluice::detail
