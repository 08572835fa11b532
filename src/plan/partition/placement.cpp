#include <algorithm>

#include "base/format.h"
#include "plan/partition/convention.h"
#include "plan/partition/shares.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

StageMap checked_map(const std::vector<int>& map, int num_ranks, int num_stages) {
  if (static_cast<int>(map.size()) != num_stages) {
    refuse("the stage-to-rank map has " + counted(static_cast<std::int64_t>(map.size()), "rank") +
               " for " + counted(num_stages, "stage"),
           "give one rank for every stage");
  }
  std::vector<bool> used(static_cast<std::size_t>(num_ranks), false);
  for (const int rank : map) {
    if (rank < 0 || rank >= num_ranks) {
      refuse(formatted("rank {} in the stage-to-rank map is not one of {}", rank,
                       counted(num_ranks, "rank")),
             "count ranks from 0");
    }
    used[rank] = true;
  }
  const auto idle = std::find(used.begin(), used.end(), false);
  if (idle != used.end()) {
    refuse(formatted("rank {} has no stage in the stage-to-rank map", idle - used.begin()),
           "give every rank a stage");
  }
  return StageMap(num_ranks, map);
}

}  // namespace

StageMap place_stages(const PartitionOptions& options, const ConventionRules& convention,
                      const ScheduleInfo* schedule, int num_ranks, int num_stages) {
  const bool v_schedule = schedule && schedule->placement == Placement::kV;
  if (v_schedule && num_stages != 2 * std::int64_t{num_ranks}) {
    refuse(schedule->name + " runs exactly 2 stages a rank, got " + counted(num_stages, "stage") +
               " on " + counted(num_ranks, "rank"),
           formatted("make {} stages", 2 * std::int64_t{num_ranks}));
  }
  if (!options.stage_to_rank.empty()) {
    return checked_map(options.stage_to_rank, num_ranks, num_stages);
  }
  const Placement wanted =
      options.placement.value_or(schedule ? schedule->placement : Placement::kLoop);
  const bool v = wanted == Placement::kV;
  if (v && convention.kind != Convention::kSluice && num_stages != 2 * std::int64_t{num_ranks}) {
    refuse("placement v of convention " + convention.name + " takes 2 stages a rank, got " +
               counted(num_stages, "stage") + " on " + counted(num_ranks, "rank"),
           formatted("make {} stages", 2 * std::int64_t{num_ranks}));
  }
  return make_stage_map(wanted, num_ranks, num_stages);
}

}  // namespace sluice::detail
