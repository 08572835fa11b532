#include "config/plan_schedule.h"

#include <algorithm>

#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

int num_microbatches(const RunConfig& config) {
  return static_cast<int>(config.training.local_batch_size / config.training.microbatch_size);
}

std::string origin_of(const RunConfig& config, const std::string& key) {
  return is_given(config, key) ? config.origins.at(key) : config.file;
}

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
         .remedy = "make " + std::to_string(below) + " or " + std::to_string(below + ranks) +
                   " stages, or give a schedule of your own by pipeline_parallel_schedule_csv"});
  }
  const bool is_v = stages == 2 * ranks && partition.stage_map.is(Placement::kV);
  return Error(ErrorKind::kUsage,
               {.what = "the schedule " + schedule.name + " places its stages on ranks " +
                        list_text(schedule.stage_map.ranks()) + ", not " +
                        list_text(partition.stage_map.ranks()),
                .where = where,
                .remedy = std::string(is_v ? "pipeline_parallel_schedule = \"ZBVZeroBubble\" or "
                                             "\"DualPipeV\", "
                                           : "") +
                          "stage_to_rank = \"auto\", or a schedule of your own by "
                          "pipeline_parallel_schedule_csv"});
}

}  // namespace

bool is_given(const RunConfig& config, const std::string& key) {
  const auto origin = config.origins.find(key);
  return origin != config.origins.end() && origin->second != "default";
}

Schedule named_schedule(const RunConfig& config, const std::string& name,
                        const Partition& partition) {
  ScheduleShape shape;
  shape.num_ranks = partition.num_ranks();
  shape.stages_per_rank = partition.stages_per_rank();
  shape.num_microbatches = num_microbatches(config);
  Schedule schedule;
  try {
    schedule = make_schedule(name, shape);
  } catch (const Error& error) {
    throw error.at(origin_of(config, "parallelism.pipeline_parallel_schedule"));
  }
  if (schedule.stage_map == partition.stage_map) return schedule;

  std::vector<int> ours;
  if (schedule.num_stages() == partition.num_stages()) {
    ours = renumbering(schedule.stage_map, partition.stage_map);
  }
  if (ours.empty()) {
    throw misplaced(schedule, partition, origin_of(config, "parallelism.stage_to_rank"));
  }
  std::vector<std::vector<Action>> rows(schedule.rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    rows[ours[rank]] = std::move(schedule.rows[rank]);
  }
  schedule.rows = std::move(rows);
  schedule.stage_map = partition.stage_map;
  return schedule;
}

Schedule schedule_of_file(const RunConfig& config) {
  const ParallelismOptions& options = config.parallelism;
  const std::string& path = options.pipeline_parallel_schedule_csv;
  Schedule schedule = read_schedule_csv(path, options.stage_to_rank);
  if (options.stage_to_rank_name != "loop" && options.stage_to_rank_name != "v") return schedule;
  const Placement placement = options.stage_to_rank_name == "v" ? Placement::kV : Placement::kLoop;
  return read_schedule_csv(
      path, make_stage_map(placement, schedule.num_ranks(), schedule.num_stages()).ranks());
}

void require_fits(const RunConfig& config, const Schedule& schedule) {
  const ParallelismOptions& options = config.parallelism;
  const std::string where = origin_of(config, "parallelism.pipeline_parallel_schedule_csv");
  if (schedule.num_ranks() != options.pipeline_parallel_degree) {
    throw Error(ErrorKind::kUsage, {.what = "the schedule " + schedule.name + " has " +
                                            counted(schedule.num_ranks(), "rank") +
                                            ", but parallelism.pipeline_parallel_degree = " +
                                            std::to_string(options.pipeline_parallel_degree),
                                    .where = where,
                                    .remedy = "parallelism.pipeline_parallel_degree = " +
                                              std::to_string(schedule.num_ranks())});
  }
  if (schedule.num_microbatches != num_microbatches(config)) {
    const std::int64_t batch = schedule.num_microbatches * config.training.microbatch_size;
    throw Error(ErrorKind::kUsage,
                {.what = "the schedule " + schedule.name + " has " +
                         counted(schedule.num_microbatches, "microbatch") +
                         ", but training.local_batch_size / training.microbatch_size = " +
                         std::to_string(num_microbatches(config)),
                 .where = where,
                 .remedy = "training.local_batch_size = " + std::to_string(batch)});
  }
}

}  // namespace sluice::detail
