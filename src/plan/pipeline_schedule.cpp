#include "plan/pipeline_schedule.h"

#include <utility>

#include "base/format.h"
#include "base/text.h"

namespace sluice::detail {
namespace {

std::string list_text(const std::vector<int>& list) {
  std::string text;
  for (const int value : list) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

// ours[rank of the builder] = rank of the partition; empty when there is no such numbering.
std::vector<int> renumbering(const StageMap& builder, const StageMap& partition) {
  std::vector<int> ours(static_cast<std::size_t>(partition.num_ranks()), -1);
  std::vector<bool> taken(ours.size(), false);
  for (int stage = 0; stage < partition.num_stages(); ++stage) {
    int& rank = ours[builder.rank_of(stage)];
    if (rank == partition.rank_of(stage)) continue;
    if (rank != -1 || taken[partition.rank_of(stage)]) return {};
    rank = partition.rank_of(stage);
    taken[rank] = true;
  }
  return ours;
}

// Why the stages of the builder are not those of the partition.
Error misplaced(const Schedule& schedule, const Partition& partition, const std::string& where) {
  const int stages = partition.num_stages(), ranks = partition.num_ranks();
  if (schedule.num_stages() != stages) {
    const int below = stages / ranks * ranks;
    return Error(
        ErrorKind::kUsage,
        {.what = "the split makes " + counted(stages, "stage") + " on " + counted(ranks, "rank") +
                 ", but the schedule " + schedule.name + " runs as many on every rank",
         .where = where,
         .remedy =
             formatted("make {} or {} stages, or give a schedule of your own by `own_schedule`",
                       below, below + ranks)});
  }
  const bool is_v = stages == 2 * ranks && partition.stage_map.is(Placement::kV);
  return Error(
      ErrorKind::kUsage,
      {.what = "the schedule " + schedule.name + " places its stages on ranks " +
               list_text(schedule.stage_map.ranks()) + ", not " +
               list_text(partition.stage_map.ranks()),
       .where = where,
       .remedy = std::string(is_v ? "`schedule` = \"ZBVZeroBubble\" or \"DualPipeV\", " : "") +
                 "no `stage_to_rank`, or a schedule of your own by `own_schedule`"});
}

Schedule renumbered(Schedule schedule, const Partition& partition, const std::string& where) {
  if (schedule.stage_map == partition.stage_map) return schedule;
  std::vector<int> ours;
  if (schedule.num_stages() == partition.num_stages()) {
    ours = renumbering(schedule.stage_map, partition.stage_map);
  }
  if (ours.empty()) throw misplaced(schedule, partition, where);
  std::vector<std::vector<Action>> rows(schedule.rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    rows[ours[rank]] = std::move(schedule.rows[rank]);
  }
  schedule.rows = std::move(rows);
  schedule.stage_map = partition.stage_map;
  return schedule;
}

Partition split(const ModelSpec& model, const PartitionOptions& options) {
  try {
    return make_partition(model, options);
  } catch (const Error& error) {
    throw error.where().empty() ? error.at("`partition`") : error;
  }
}

// schedule none: stages and placement are free of one.
PartitionOptions partition_options(const PipelineOptions& options, int num_ranks,
                                   const std::optional<ScheduleName>& schedule) {
  if (options.partition.num_ranks != 0 && options.partition.num_ranks != num_ranks) {
    throw Error(ErrorKind::kUsage,
                {.what = "the partition is for " + counted(options.partition.num_ranks, "rank") +
                         ", the pipeline has " + counted(num_ranks, "rank"),
                 .where = "`partition`",
                 .remedy = "leave `partition.num_ranks` out"});
  }
  PartitionOptions partition = options.partition;
  partition.num_ranks = num_ranks;
  partition.schedule = schedule;
  return partition;
}

void require_fits(const Schedule& schedule, const char* what, int found, const char* option,
                  const std::optional<int>& wanted) {
  if (!wanted || *wanted == found) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("the schedule {} has {}, but {} = {}", schedule.name,
                                 counted(found, what), option, *wanted),
               .where = "`own_schedule`",
               .remedy = option + (" = " + std::to_string(found))});
}

// The number of stages does not depend on where the cuts are.
bool has_several_stages_a_rank(const ModelSpec& model, const PipelineOptions& options,
                               int num_ranks) {
  PartitionOptions partition = partition_options(options, num_ranks, std::nullopt);
  partition.layer_costs.clear();
  partition.accepts = nullptr;
  return split(model, partition).stages_per_rank() > 1;
}

}  // namespace

SplitSchedule split_with_named_schedule(const ModelSpec& model, const PipelineOptions& options) {
  SplitSchedule made;
  const int num_ranks = options.num_ranks.value_or(1);
  ScheduleName name = options.schedule.value_or(ScheduleKind::k1F1B);
  if (!options.schedule && has_several_stages_a_rank(model, options, num_ranks)) {
    name = ScheduleKind::kInterleaved1F1B;
    made.notes.push_back("several stages a rank and no schedule named: " + name.text() +
                         " is taken (`schedule`)");
  }
  made.partition = split(model, partition_options(options, num_ranks, name));
  made.schedule = named_schedule(made.partition, options, name);
  return made;
}

Schedule named_schedule(const Partition& partition, const PipelineOptions& options,
                        const ScheduleName& name) {
  Schedule schedule;
  try {
    schedule = make_schedule(name, {.num_ranks = partition.num_ranks(),
                                    .stages_per_rank = partition.stages_per_rank(),
                                    .num_microbatches = options.num_microbatches.value_or(1)});
  } catch (const Error& error) {
    throw options.schedule ? error.at("`schedule`") : error;
  }
  const bool placed = options.partition.placement || !options.partition.stage_to_rank.empty();
  return renumbered(std::move(schedule), partition, placed ? "`stage_to_rank`" : "");
}

SplitSchedule split_with_own_schedule(const ModelSpec& model, const PipelineOptions& options) {
  SplitSchedule made;
  made.schedule = *options.own_schedule;
  if (options.schedule) {
    made.notes.push_back("`schedule` = \"" + options.schedule->text() +
                         "\" is not used: the schedule is that of " + made.schedule.name);
  }
  require_fits(made.schedule, "rank", made.schedule.num_ranks(), "`num_ranks`", options.num_ranks);
  require_fits(made.schedule, "microbatch", made.schedule.num_microbatches, "`num_microbatches`",
               options.num_microbatches);
  if (options.partition.placement || !options.partition.stage_to_rank.empty()) {
    throw Error(ErrorKind::kUsage, {.what = "`own_schedule` and `stage_to_rank` exclude each other",
                                    .where = "`own_schedule`",
                                    .remedy = "the schedule has its stages on ranks " +
                                              list_text(made.schedule.stage_map.ranks())});
  }
  PartitionOptions partition = partition_options(options, made.schedule.num_ranks(), std::nullopt);
  partition.stage_to_rank = made.schedule.stage_map.ranks();
  partition.num_stages = made.schedule.num_stages();
  made.partition = split(model, partition);
  return made;
}

}  // namespace sluice::detail
