#include "plan/partition/cutting.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "plan/partition/convention.h"
#include "plan/partition/shares.h"
#include "plan/partition/stage_backwards.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using detail::ConventionRules;

std::vector<StageContent> stage_contents(const ModelSpec& model, const detail::LayerNames& layers,
                                         detail::Split split, const StageMap& stage_map) {
  std::vector<StageContent> stages;
  for (std::size_t s = 0; s < split.starts.size(); ++s) {
    const int start = split.starts[s];
    const int stop = s + 1 < split.starts.size() ? split.starts[s + 1] : layers.num_layers;
    StageContent& stage = stages.emplace_back();
    stage.stage = static_cast<int>(s);
    stage.rank = stage_map.rank_of(static_cast<int>(s));
    stage.first_layer = layers.decoders_before(start);
    stage.num_layers = layers.decoders_before(stop) - stage.first_layer;
    stage.modules = std::move(split.modules[s]);
    for (int i = start; i < stop; ++i) {
      stage.layers.push_back(i);
      stage.num_parameters += model.layers[i].num_parameters();
    }
  }
  return stages;
}

std::vector<TieGroup> tie_groups(const ModelSpec& model, const std::vector<StageContent>& stages) {
  std::vector<TieGroup> groups;
  const auto group_of = [&](const std::string& name) {
    return std::find_if(groups.begin(), groups.end(),
                        [&](const TieGroup& group) { return group.name == name; });
  };
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (!parameter.trainable) continue;
      if (!parameter.tied_to.empty() && group_of(parameter.tied_to) == groups.end()) {
        groups.push_back({parameter.tied_to, {}});
      }
    }
  }
  if (groups.empty()) return groups;
  for (const StageContent& stage : stages) {
    for (const int i : stage.layers) {
      for (const ParameterSpec& parameter : model.layers[i].parameters) {
        const auto group = group_of(parameter.tied_to.empty() ? parameter.name : parameter.tied_to);
        if (group == groups.end()) continue;
        if (group->stages.empty() || group->stages.back() != stage.stage) {
          group->stages.push_back(stage.stage);
        }
      }
    }
  }
  return groups;
}

void set_backwards(const ModelSpec& model, Partition& partition) {
  std::vector<bool> layer_trains;
  for (const LayerInfo& layer : model.layers) layer_trains.push_back(layer.trains());
  if (std::find(layer_trains.begin(), layer_trains.end(), false) == layer_trains.end()) return;
  const std::vector<StageBackward> backwards = stage_backwards(model, partition, layer_trains);
  for (StageContent& stage : partition.stages) stage.backward = backwards[stage.stage];
}

// Defaults to the ranks in stage_to_rank, or to one rank per stage.
int num_ranks(const PartitionOptions& options, int num_stages) {
  if (options.num_ranks != 0) return options.num_ranks;
  if (options.stage_to_rank.empty()) return num_stages;
  const int last = *std::max_element(options.stage_to_rank.begin(), options.stage_to_rank.end());
  return std::clamp(last, 0, num_stages - 1) + 1;
}

// Checks what partition.h promises. A failure is our bug, not a user error.
void check_invariants(const ModelSpec& model, const Partition& partition) {
  const auto fail = [](const std::string& what) {
    throw Error(ErrorKind::kInternal, {.what = "broken partition: " + what});
  };
  int next = 0;
  std::set<std::string> owned;
  for (const StageContent& stage : partition.stages) {
    if (stage.layers.empty()) fail(formatted("stage {} is empty", stage.stage));
    for (const int i : stage.layers) {
      if (i != next++) fail(formatted("layer {} is out of order", i));
      for (const ParameterSpec& parameter : model.layers[i].parameters) {
        if (!owned.insert(parameter.name).second) fail("'" + parameter.name + "' is owned twice");
      }
    }
  }
  if (next != static_cast<int>(model.layers.size())) fail("layers are on no stage");
}

void require_costs(const std::vector<double>& costs, const detail::LayerNames& layers) {
  if (static_cast<int>(costs.size()) != layers.num_layers) {
    detail::refuse("there are " + counted(static_cast<std::int64_t>(costs.size()), "cost") +
                       " for " + counted(layers.num_layers, "layer"),
                   "give one cost for every layer, in order");
  }
  const bool all_fit = std::all_of(costs.begin(), costs.end(),
                                   [](double cost) { return std::isfinite(cost) && cost >= 0; });
  if (!all_fit)
    detail::refuse("a layer cost is negative or not finite", "give numbers of at least 0");
}

}  // namespace

const std::vector<std::string>& partition_conventions() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const ConventionRules& convention : detail::conventions()) list.push_back(convention.name);
    return list;
  }();
  return names;
}

std::string_view name_of(Convention convention) {
  return detail::conventions().at(static_cast<std::size_t>(convention)).name;
}

Convention parse_kind(std::string_view name, Convention) {
  for (const ConventionRules& convention : detail::conventions()) {
    if (convention.name == name) return convention.kind;
  }
  detail::refuse("unknown partition convention '" + std::string(name) + "'",
                 suggest_name(name, partition_conventions()));
}

int default_end_weight(const ConventionName& convention) {
  return detail::find_convention(convention).default_weight;
}

Partition make_partition(const ModelSpec& model, const PartitionOptions& options) {
  return detail::Cutting(model, options, detail::CutBy::kRule).by_rule();
}

std::vector<std::string> parameter_names(const ModelSpec& model, const StageContent& stage) {
  std::vector<std::string> names;
  for (const int i : stage.layers) {
    for (const ParameterSpec& parameter : model.layers[i].parameters) {
      names.push_back(parameter.name);
    }
  }
  return names;
}

std::vector<StageShape> stage_shapes(const ModelSpec& model, const Partition& partition,
                                     std::int64_t microbatch_size, std::int64_t seq_len) {
  for (const auto& [what, value] : {std::pair{"the microbatch size", microbatch_size},
                                    std::pair{"the sequence length", seq_len}}) {
    if (value < 1) {
      detail::refuse(formatted("{} is {}", what, value), "give at least 1");
    }
  }
  const MicrobatchShape shape{microbatch_size, seq_len};
  std::map<std::string, ValueSpec> values;
  for (const ValueSpec& value : model.inputs) values[value.name] = value;
  for (const LayerInfo& layer : model.free_layers)
    for (const ValueSpec& value : layer.writes) values[value.name] = value;
  const auto value_of = [&](const std::string& name, const LayerInfo& layer) {
    const auto found = values.find(name);
    if (found == values.end()) {
      detail::refuse("the values of layer '" + layer.name + "' are not known",
                     "give a model whose layers declare what they read and write");
    }
    return found->second;
  };
  std::vector<StageShape> shapes;
  for (const StageContent& stage : partition.stages) {
    const LayerInfo& first = model.layers[stage.layers.front()];
    const LayerInfo& last = model.layers[stage.layers.back()];
    StageShape& of_stage = shapes.emplace_back();
    const ValueSpec input = value_of(first.reads.empty() ? "" : first.reads.front(), first);
    of_stage.input = input.sizes_at(shape);
    of_stage.input_dtype = input.dtype;
    for (const int i : stage.layers) {
      for (const ValueSpec& value : model.layers[i].writes) values[value.name] = value;
    }
    const ValueSpec output = value_of(last.writes.empty() ? "" : last.writes.front().name, last);
    of_stage.output = output.sizes_at(shape);
    of_stage.output_dtype = output.dtype;
    // A head that computes the loss also outputs logits.
    if (last.computes_loss()) of_stage.output = {microbatch_size, seq_len, model.vocab_size};
  }
  return shapes;
}

namespace detail {

Cutting::Cutting(const ModelSpec& model, const PartitionOptions& options, CutBy by)
    : model_(model), options_(options), convention_(find_convention(options.convention)) {
  notes_ = drop_overruled(convention_, options_);
  check_options(convention_, options_, by == CutBy::kCosts);
  require_own_names(convention_, model, options_);
  const ScheduleInfo* schedule = options_.schedule ? &find_schedule(*options_.schedule) : nullptr;
  int num_stages = 0;
  if (by == CutBy::kCosts) {
    num_stages = counted_stages(options_, schedule, model.num_blocks());
  } else {
    rule_ = convention_.split(model, options_, schedule);
    num_stages = static_cast<int>(rule_.starts.size());
    require_num_stages(options_, num_stages);
    require_layers(convention_, options_, num_stages, model.num_blocks());
  }
  stage_map_ =
      place_stages(options_, convention_, schedule, num_ranks(options_, num_stages), num_stages);
}

Partition Cutting::by_rule() const {
  Partition partition = partition_of(rule_);
  if (convention_.weights && !has_names(options_))
    partition.weights = end_weights(convention_, options_);
  return partition;
}

SplitProblem Cutting::problem(const std::vector<double>& costs) const {
  const LayerNames layers = convention_.names(model_, options_);
  require_costs(costs, layers);
  const int num_stages = stage_map_.num_stages();
  if (convention_.layer_each) require_layer_each(num_stages, layers.num_decoders);
  SplitProblem problem;
  problem.costs = costs;
  problem.first_cut = std::max(1, layers.first_decoder);
  problem.last_cut = std::min(layers.num_layers - 1, layers.position(layers.num_decoders));
  problem.stage_to_rank = stage_map_.ranks();
  const int places = std::max(0, problem.last_cut - problem.first_cut + 1);
  if (num_stages - 1 > places) require_layer_each(num_stages, places + 1);
  return problem;
}

Partition Cutting::at(const std::vector<int>& starts) const {
  return partition_of(split_at(convention_.names(model_, options_), starts));
}

Partition Cutting::outline(const std::vector<int>& starts) const {
  Partition partition;
  partition.stage_map = stage_map_;
  for (std::size_t s = 0; s < starts.size(); ++s) {
    StageContent& stage = partition.stages.emplace_back();
    stage.stage = static_cast<int>(s);
    stage.rank = stage_map_.rank_of(stage.stage);
    const auto stop =
        s + 1 < starts.size() ? static_cast<std::size_t>(starts[s + 1]) : model_.layers.size();
    stage.layers.resize(stop - static_cast<std::size_t>(starts[s]));
    std::iota(stage.layers.begin(), stage.layers.end(), starts[s]);
  }
  set_backwards(model_, partition);
  return partition;
}

Partition Cutting::partition_of(Split split) const {
  Partition partition;
  partition.convention = convention_.name;
  partition.notes = notes_;
  partition.stage_map = stage_map_;
  partition.split_points = split.split_points;
  partition.stages = stage_contents(model_, hf_names(model_), std::move(split), stage_map_);
  partition.tie_groups = tie_groups(model_, partition.stages);
  set_backwards(model_, partition);
  check_invariants(model_, partition);
  return partition;
}

Partition split_by_costs(const ModelSpec& model, const PartitionOptions& options,
                         const std::vector<double>& costs) {
  const Cutting cutting(model, options, CutBy::kCosts);
  CutOrder order(cutting.problem(costs));
  return cutting.at(*order.at(0));
}

}  // namespace detail
}  // namespace sluice
