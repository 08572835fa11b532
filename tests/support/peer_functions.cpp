#include "support/peer_functions.h"

#include <algorithm>

#include "base/format.h"
#include "base/text.h"
#include "plan/partition/torchtitan_rules.h"
#include "sluice/error.h"

namespace sluice::testing {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void add(std::vector<std::string>& names, const std::string& name) {
  if (!has(names, name)) names.push_back(name);
}

std::string stage_text(std::size_t stage) { return "stage " + std::to_string(stage); }

// Makes `value` leave every stage from its producer up to `last`, and enter the stages between.
void relay(std::vector<StageTraffic>& stages, const std::string& value, std::size_t last) {
  std::size_t stage = last;
  while (!has(stages[stage].send, value) && !has(stages[stage].recv, value)) {
    if (stage == 0) {
      throw Error(ErrorKind::kUsage,
                  {.what = "value '" + value + "' is produced by no stage before",
                   .where = stage_text(last + 1),
                   .remedy = "produce it earlier, or name it as a model input"});
    }
    --stage;
  }
  add(stages[stage].send, value);
  for (++stage; stage <= last; ++stage) {
    add(stages[stage].recv, value);
    add(stages[stage].send, value);
  }
}

}  // namespace

std::vector<std::string> generate_split_points_2024(std::string_view schedule, int pp_degree,
                                                    int num_layers) {
  detail::require_count("the number of ranks", pp_degree, 1);
  const int num_stages = pp_degree * detail::natural_stages_per_rank(&find_schedule(schedule));
  return detail::titan_split_points(
      detail::first_layers(detail::shares_2024(num_layers, num_stages)));
}

int get_pipeline_metadata(std::string_view schedule, int pp_degree, int num_layers,
                          std::optional<int> layers_per_stage, int first_stage_less_layers,
                          int last_stage_less_layers) {
  const ScheduleInfo& info = find_schedule(schedule);
  detail::require_count("the weight of the first stage", first_stage_less_layers, 0);
  detail::require_count("the weight of the last stage", last_stage_less_layers, 0);
  detail::require_count("the number of layers", num_layers, 0);
  const int weight = first_stage_less_layers + last_stage_less_layers;
  if (!layers_per_stage) {
    return calculate_virtual_stages(num_layers, {}, pp_degree, info.single_stage).num_stages;
  }
  return detail::virtual_stages(num_layers + weight, *layers_per_stage, pp_degree,
                                detail::stages_need(&info), Rounding::kNone,
                                weight > 0 ? "effective layer" : "layer")
      .num_stages;
}

ModuleNames generate_llm_fqn_per_model_part(int num_stages, int num_layers, int input_weight,
                                            int output_weight, const std::string& head) {
  return detail::titan_modules(
      detail::first_layers(detail::weighted_shares(num_layers, num_stages, input_weight,
                                                   output_weight, Remainder::kFirst)),
      num_layers, head);
}

std::vector<std::vector<ManualStage>> pipeline_llama_manual_split(
    int num_layers, int pp_size, std::string_view schedule,
    const std::vector<std::string>& split_points, std::optional<int> layers_per_stage) {
  PartitionOptions options;
  options.convention = Convention::kTorchtitan;
  options.num_ranks = pp_size;
  options.schedule = schedule;
  options.split_points = split_points;
  if (split_points.empty()) {
    if (layers_per_stage) detail::require_count("`layers_per_stage`", *layers_per_stage, 1);
    options.layers_per_stage = layers_per_stage.value_or(0);
  }
  detail::require_count("the number of ranks", pp_size, 1);
  const Partition partition = make_partition(model_spec_of_blocks(num_layers), options);
  std::vector<std::vector<ManualStage>> ranks(static_cast<std::size_t>(pp_size));
  for (const StageContent& stage : partition.stages) {
    ranks[stage.rank].push_back({stage.stage, partition.num_stages(), stage.modules});
  }
  return ranks;
}

std::vector<RowRange> split_batch_into_microbatches(std::int64_t batch,
                                                    std::int64_t num_microbatches) {
  detail::require_count("the number of microbatches", num_microbatches, 1);
  if (batch < num_microbatches) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("a batch of {} rows has fewer rows than the {} microbatches",
                                   batch, num_microbatches),
                 .remedy = "use at most as many microbatches as rows"});
  }
  std::vector<RowRange> ranges;
  ranges.reserve(static_cast<std::size_t>(num_microbatches));
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < num_microbatches; ++i) {
    const std::int64_t size = batch / num_microbatches + (i < batch % num_microbatches ? 1 : 0);
    ranges.push_back({start, size});
    start += size;
  }
  return ranges;
}

std::vector<StageTraffic> live_values_between_stages(const std::vector<StageValues>& stages,
                                                     const std::vector<std::string>& model_inputs) {
  std::vector<StageTraffic> traffic(stages.size());
  std::vector<std::string> produced;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::string& value : stages[s].consumes) {
      if (has(model_inputs, value)) continue;
      if (s == 0) {
        throw Error(ErrorKind::kUsage,
                    {.what = "value '" + value + "' is produced by no stage before",
                     .where = stage_text(0),
                     .remedy = "name it as a model input"});
      }
      relay(traffic, value, s - 1);
      add(traffic[s].recv, value);
    }
    for (const std::string& value : stages[s].produces) {
      if (has(produced, value) || has(model_inputs, value)) {
        throw Error(ErrorKind::kUsage, {.what = "value '" + value + "' is produced twice",
                                        .where = stage_text(s),
                                        .remedy = "give the second another name"});
      }
      produced.push_back(value);
      traffic[s].send.push_back(value);
    }
  }
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    for (const std::string& value : traffic[s].send) {
      if (!has(traffic[s + 1].recv, value)) {
        throw Error(ErrorKind::kUsage,
                    {.what = "value '" + value + "' is sent but no later stage reads it",
                     .where = stage_text(s),
                     .remedy = "do not produce it, or read it later"});
      }
    }
  }
  return traffic;
}

SharedWeights analyze_shared_weights_across_stages(
    int pp_size, const std::vector<std::vector<std::pair<std::string, std::string>>>& stages) {
  detail::require_count("the number of ranks", pp_size, 1);
  using Uses = std::vector<std::pair<std::string, int>>;
  std::vector<std::pair<std::string, Uses>> weights;  // in the order of their first use
  SharedWeights result;
  result.shared_on_rank.resize(static_cast<std::size_t>(pp_size));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int rank = static_cast<int>(s % static_cast<std::size_t>(pp_size));
    std::vector<std::string> seen;  // a module counts each weight once
    for (const auto& [name, weight] : stages[s]) {
      if (has(seen, weight)) continue;
      seen.push_back(weight);
      auto found = std::find_if(weights.begin(), weights.end(),
                                [&w = weight](const auto& entry) { return entry.first == w; });
      if (found == weights.end()) {
        weights.emplace_back(weight, Uses());
        found = weights.end() - 1;
      }
      Uses& uses = found->second;
      const bool first = uses.empty();
      const bool on_rank = std::any_of(uses.begin(), uses.end(),
                                       [rank](const auto& use) { return use.second == rank; });
      if (!on_rank) uses.emplace_back(name, rank);
      result.shared_on_rank[rank][weight] = !first && !on_rank;
    }
  }
  for (const auto& [weight, uses] : weights) {
    if (uses.size() > 1) result.groups.push_back(uses);
  }
  return result;
}

}  // namespace sluice::testing
