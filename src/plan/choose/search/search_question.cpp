#include "plan/choose/search/search_question.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "plan/choose/best.h"
#include "plan/partition/cutting.h"
#include "plan/partition/layout_text.h"
#include "plan/passes/passes.h"
#include "plan/predict/costs.h"
#include "plan/predict/layer_costs.h"
#include "plan/predict/layer_times.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr double kSame = 1e-9;  // relative difference that counts as equal

[[noreturn]] void refuse(const std::string& what, const std::string& where,
                         const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = where, .remedy = remedy});
}

bool knows_bytes(const Costs& costs) {
  const auto has_any = [](const StageCosts& stage) {
    return stage.kept_bytes > 0 || stage.kept_after_input_bytes > 0 || stage.held_bytes > 0;
  };
  return has_any(costs.uniform) ||
         std::any_of(costs.per_stage.begin(), costs.per_stage.end(), has_any);
}

void require_bytes(const ScheduleQuestion& question, const Costs& costs) {
  if (!question.max_bytes || knows_bytes(costs)) return;
  refuse("`max_bytes` needs the bytes that a stage keeps for a microbatch", "`costs`",
         "give kept_bytes of every stage in the costs file");
}

std::vector<StageMap> maps_of(const ScheduleQuestion& question, int stages_per_rank) {
  const int num_stages = stages_per_rank * question.num_ranks;
  if (!question.stage_to_rank.empty()) {
    const std::vector<int> ranks =
        parse_stage_to_rank(question.stage_to_rank, question.num_ranks, num_stages);
    if (static_cast<int>(ranks.size()) != num_stages) {
      refuse(formatted("the stage-to-rank map has {}, but the schedule has {}",
                       counted(std::ssize(ranks), "stage"), num_stages),
             "`stage_to_rank`", "give one rank for every stage");
    }
    for (int rank = 0; rank < question.num_ranks; ++rank) {
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
        refuse(formatted("rank {} has no stage", rank), "`stage_to_rank`",
               "give every rank a stage");
    }
    if (*std::max_element(ranks.begin(), ranks.end()) >= question.num_ranks)
      refuse("the stage-to-rank map names a rank that does not exist", "`stage_to_rank`",
             "count ranks from 0");
    return {StageMap(question.num_ranks, ranks)};
  }
  std::vector<StageMap> maps = {make_stage_map(Placement::kLoop, question.num_ranks, num_stages)};
  if (stages_per_rank == 2)
    maps.push_back(make_stage_map(Placement::kV, question.num_ranks, num_stages));
  return maps;
}

class Questioner {
 public:
  explicit Questioner(const ScheduleQuestion& question) : question_(question) {
    result_.max_bytes = question.max_bytes;
  }

  void ask(const StageMap& stage_map, const Costs& costs,
           const std::shared_ptr<const Partition>& partition = nullptr) {
    SearchOptions options;
    options.max_bytes = question_.max_bytes;
    options.effort = question_.effort;
    for (const ScheduleInfo& info : schedule_table()) {
      ScheduleAnswer answer;
      try {
        answer.schedule =
            make_schedule(info.kind, {.num_ranks = stage_map.num_ranks(),
                                      .stages_per_rank = stage_map.stages_per_rank(),
                                      .num_microbatches = question_.num_microbatches});
      } catch (const Error& error) {
        continue;  // unsupported stages or microbatches
      }
      if (answer.schedule.stage_map != stage_map) continue;
      answer.partition = partition;
      judge(answer, costs);
      if (answer.refusal.empty()) options.starts.push_back(answer.schedule);
      result_.named.push_back(std::move(answer));
    }
    std::optional<Schedule> found =
        search_schedule(stage_map, question_.num_microbatches, costs, options);
    if (!found) return;
    ScheduleAnswer answer{std::move(*found), {}, {}, {}, partition};
    judge(answer, costs);
    if (!answer.refusal.empty()) {
      throw Error(ErrorKind::kInternal,
                  {.what = "the search found an order that cannot be used: " + answer.refusal});
    }
    const bool is_first = !result_.found;
    if (is_first || answer.simulation.makespan < result_.found->simulation.makespan * (1 - kSame))
      result_.found = std::move(answer);
  }

  SearchResult result(ModelSpec model = {}) {
    result_.model = std::move(model);
    for (std::size_t i = 0; i < result_.named.size(); ++i) {
      const ScheduleAnswer& each = result_.named[i];
      if (!each.refusal.empty()) continue;
      const auto best = result_.best_named;
      if (!best ||
          each.simulation.makespan < result_.named[*best].simulation.makespan * (1 - kSame))
        result_.best_named = i;
    }
    if (result_.found) {
      result_.is_better = !result_.best_named ||
                          result_.found->simulation.makespan <
                              result_.named[*result_.best_named].simulation.makespan * (1 - kSame);
    }
    return std::move(result_);
  }

 private:
  void judge(ScheduleAnswer& answer, const Costs& costs) const {
    const Program program = lower(answer.schedule);
    answer.report = verify(program);
    if (!answer.report.ok()) {
      answer.refusal = answer.report.violations.front().reason;
      return;
    }
    answer.simulation = simulate(program, costs);
    answer.refusal = detail::order_of_sums_violation(program);
    if (!answer.refusal.empty() || !question_.max_bytes) return;
    if (const double peak = peak_of(answer); peak > *question_.max_bytes) {
      answer.refusal =
          "needs " + needed_bytes(static_cast<std::int64_t>(std::ceil(peak))) + " on a rank";
    }
  }

  const ScheduleQuestion question_;
  SearchResult result_;
};

// Returns the stages per rank that the layout needs. Throws if they are not the same on all ranks.
int stages_of_layout(const ScheduleQuestion& question, const ModuleNames& modules) {
  const auto num_stages = static_cast<int>(modules.size());
  if (num_stages % question.num_ranks != 0 ||
      (question.stages_per_rank > 0 &&
       num_stages != question.stages_per_rank * question.num_ranks)) {
    refuse(formatted("the layout has {}, which do not fit {}", counted(num_stages, "stage"),
                     counted(question.num_ranks, "rank")),
           "`layout`", "set `num_ranks` to a divisor of the stages");
  }
  return num_stages / question.num_ranks;
}

SearchResult search_with_layers(const ScheduleQuestion& question, const ModelSpec& model,
                                const LayerTimes& times) {
  Questioner questioner(question);
  const ModuleNames modules =
      question.layout.empty() ? ModuleNames() : detail::modules_of_layout(model, question.layout);
  std::vector<int> counts = {question.stages_per_rank};
  if (!modules.empty()) {
    counts = {stages_of_layout(question, modules)};
  } else if (question.stages_per_rank == 0) {
    counts = {1};
    if (2 * question.num_ranks <= model.num_blocks()) counts.push_back(2);
  }
  for (const int each : counts) {
    for (const StageMap& stage_map : maps_of(question, each)) {
      PartitionOptions options;
      options.num_ranks = question.num_ranks;
      options.schedule.reset();
      options.stage_to_rank = stage_map.ranks();
      options.modules = modules;
      if (modules.empty()) options.num_stages = stage_map.num_stages();
      const auto partition = std::make_shared<const Partition>(
          modules.empty()
              ? detail::split_by_costs(model, options, step_times(times, question.num_microbatches))
              : make_partition(model, options));
      const Costs costs = stage_costs(times, *partition);
      require_bytes(question, costs);
      questioner.ask(stage_map, costs, partition);
    }
  }
  return questioner.result(model);
}

std::string bytes_text(double bytes) { return human_bytes(static_cast<std::int64_t>(bytes)); }

}  // namespace

double peak_of(const ScheduleAnswer& answer) {
  double peak = 0;
  for (const RankTimeline& rank : answer.simulation.ranks) peak = std::max(peak, rank.peak_bytes);
  return peak;
}

SearchResult search_with_costs(const ScheduleQuestion& question, const Costs& costs) {
  if (!question.layout.empty()) {
    refuse("`layout` needs costs of layers, but these are costs of stages", "`layout`",
           "give costs of layers, as `sluice plan --measure` writes them");
  }
  require_bytes(question, costs);
  std::vector<int> counts = {question.stages_per_rank};
  if (question.stages_per_rank == 0) {
    const auto given = static_cast<int>(costs.per_stage.size());
    if (given % question.num_ranks != 0) {
      refuse("the costs are for " + counted(given, "stage") + ", which " +
                 counted(question.num_ranks, "rank") + " cannot share evenly",
             costs.file, "set `num_ranks` to a divisor of the stages");
    }
    counts = given > 0 ? std::vector{given / question.num_ranks} : std::vector{1, 2};
  }
  Questioner questioner(question);
  for (const int each : counts) {
    for (const StageMap& stage_map : maps_of(question, each)) questioner.ask(stage_map, costs);
  }
  return questioner.result();
}

SearchResult search_with_file(const ScheduleQuestion& question, const std::string& path) {
  const std::string text = read_text_or_pipe(path, kMaxFileBytes, ErrorKind::kInput);
  if (!holds_layer_times(text)) return search_with_costs(question, parse_costs_json(text, path));
  const LayerTimes times = parse_layer_times(text, path);
  return search_with_layers(question, model_of_times(times), times);
}

SearchResult search_with_layer_costs(const ScheduleQuestion& question, const std::string& path) {
  const std::string text = read_text_or_pipe(path, kMaxFileBytes, ErrorKind::kInput);
  if (is_measured_here(text)) {
    const LayerTimes times = parse_layer_times(text, path);
    return search_with_layers(question, model_of_times(times), times);
  }
  CostedModel costed = model_of_layer_costs(parse_layer_costs(text, path));
  SearchResult result = search_with_layers(question, costed.model, costed.times);
  result.notes = std::move(costed.notes);
  return result;
}

std::optional<Error> search_shortage(const SearchResult& result) {
  if (result.found) return std::nullopt;
  const ScheduleAnswer* smallest = nullptr;
  for (const ScheduleAnswer& each : result.named) {
    if (peak_of(each) > 0 && (!smallest || peak_of(each) < peak_of(*smallest))) smallest = &each;
  }
  std::string what =
      "no order fits into " + bytes_text(result.max_bytes.value_or(0)) + " on a rank";
  if (smallest) {
    what += ": of the named schedules, " + smallest->schedule.name + " needs least, " +
            bytes_text(peak_of(*smallest));
  }
  return Error(ErrorKind::kMemory,
               {.what = std::move(what),
                .where = "`max_bytes`",
                .remedy = "raise `max_bytes`, use more ranks, or measure smaller microbatches"});
}

}  // namespace sluice
