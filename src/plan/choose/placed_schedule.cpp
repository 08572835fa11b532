#include "plan/choose/placed_schedule.h"

#include <utility>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

Error misplaced(const Schedule& schedule, const StageMap& stage_map, const std::string& where) {
  const int stages = stage_map.num_stages(), ranks = stage_map.num_ranks();
  if (schedule.num_stages() != stages) {
    const int below = stages / ranks * ranks;
    return Error(
        ErrorKind::kUsage,
        {.what = "the split makes " + counted(stages, "stage") + " on " + counted(ranks, "rank") +
                 ", but the schedule " + schedule.name + " needs the same number on every rank",
         .where = where,
         .remedy =
             formatted("make {} or {} stages, or give a schedule of your own by `schedule.own`",
                       below, below + ranks)});
  }
  const bool is_v = stages == 2 * ranks && stage_map.is(Placement::kV);
  return Error(
      ErrorKind::kUsage,
      {.what = "the schedule " + schedule.name + " places its stages on ranks " +
               list_text(schedule.stage_map.ranks()) + ", not " + list_text(stage_map.ranks()),
       .where = where,
       .remedy = std::string(is_v ? "set `schedule` = \"ZBVZeroBubble\" or \"DualPipeV\", " : "") +
                 "leave `stage_to_rank` out, or give a schedule of your own by `schedule.own`"});
}

// True if both maps put the same stages together, with any numbering of the ranks.
bool lie_alike(const StageMap& places, const StageMap& stage_map) {
  if (places.num_stages() != stage_map.num_stages()) return false;
  std::vector<bool> taken(static_cast<std::size_t>(stage_map.num_ranks()), false);
  for (int stage = 0; stage < stage_map.num_stages(); ++stage) {
    const int rank = stage_map.rank_of(stage), place = places.rank_of(stage);
    // In `places`, rank `place` owns stage `place`, so both stages must share a rank in
    // `stage_map`.
    if (rank != stage_map.rank_of(place)) return false;
    if (stage != place) continue;
    if (taken[static_cast<std::size_t>(rank)]) return false;
    taken[static_cast<std::size_t>(rank)] = true;
  }
  return true;
}

}  // namespace

std::string list_text(const std::vector<int>& list) {
  std::string text;
  for (const int value : list) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

Schedule placed_schedule(const ScheduleName& name, const StageMap& stage_map, int num_microbatches,
                         const ScheduleOptions& said) {
  // The builder numbers ranks in pipeline order, so its rows must move to our ranks.
  Schedule schedule;
  try {
    schedule = make_schedule(name, {.num_ranks = stage_map.num_ranks(),
                                    .stages_per_rank = stage_map.stages_per_rank(),
                                    .num_microbatches = num_microbatches});
  } catch (const Error& error) {
    throw error.at(said.name);
  }
  if (!lie_alike(schedule.stage_map, stage_map)) throw misplaced(schedule, stage_map, said.places);
  std::vector<std::vector<Action>> rows(schedule.rows.size());
  for (std::size_t place = 0; place < rows.size(); ++place) {
    const int rank = stage_map.rank_of(static_cast<int>(place));
    rows[static_cast<std::size_t>(rank)] = std::move(schedule.rows[place]);
  }
  schedule.rows = std::move(rows);
  schedule.stage_map = stage_map;
  return schedule;
}

}  // namespace sluice::detail
