#include "report/step_as_run.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/format.h"
#include "base/text.h"
#include "sluice/parts/action.h"

namespace sluice {
namespace {

bool updates(ActionKind kind) {
  return kind == ActionKind::kUpdate || kind == ActionKind::kOptimizerStep;
}

double expected_seconds(const Costs& costs, const Action& action) {
  const auto stage = static_cast<std::size_t>(action.stage);
  const StageCosts& of = stage < costs.per_stage.size() ? costs.per_stage[stage] : costs.uniform;
  switch (action.kind) {
    case ActionKind::kForward:
      return of.forward;
    case ActionKind::kBackward:
      return of.backward;
    default:
      return of.backward_input;
  }
}

void add_compute(RankTimeline& rank, const Action& action, double start, double end,
                 const Costs& costs) {
  rank.busy += end - start;
  rank.finish = end;
  if (action.kind != ActionKind::kOverlap) {
    rank.actions.push_back({action, start, end});
    return;
  }
  const Action first = action.overlap_forward(), second = action.overlap_backward();
  const double forward = expected_seconds(costs, first);
  const double both = forward + expected_seconds(costs, second);
  const double middle = start + (end - start) * (both > 0 ? forward / both : 0.5);
  rank.actions.push_back({first, start, middle});
  rank.actions.push_back({second, middle, end});
}

bool is_of_first_replica(const Mesh& mesh, int rank) {
  for (const Axis axis : {Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp})
    if (mesh.coordinate(rank, axis) != 0) return false;
  return true;
}

}  // namespace

std::vector<RecordedInstruction> ran_instructions(const FlightRecord& record) {
  std::vector<RecordedInstruction> ran;
  for (const FlightEntry& entry : record.entries) {
    if (entry.pass != record.pass) continue;
    const ActionKind kind = parse_action(entry.action).kind;
    if (is_compute(kind) || updates(kind))
      ran.push_back({entry.action, entry.start + entry.waited, entry.start + entry.seconds});
  }
  return ran;
}

Picture picture_of_recorded_step(const std::string& title, const Plan& plan,
                                 const std::vector<std::vector<RecordedInstruction>>& ranks) {
  const Mesh& mesh = plan.program.mesh;
  double begin = std::numeric_limits<double>::max();
  for (const auto& rank : ranks)
    for (const RecordedInstruction& each : rank) begin = std::min(begin, each.start);
  Picture picture = {.title = title,
                     .basis = {.unit = "s", .measured = true},
                     .live_in_bytes = knows_bytes(plan.costs)};
  Simulation& ran = picture.simulation;
  ran.ranks.resize(static_cast<std::size_t>(plan.program.num_ranks()));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int of_run = static_cast<int>(i);
    if (!is_of_first_replica(mesh, of_run)) continue;
    if (ranks[i].empty()) return {};
    RankTimeline& rank = ran.ranks[static_cast<std::size_t>(mesh.coordinate(of_run, Axis::kPp))];
    for (const RecordedInstruction& each : ranks[i]) {
      const Action action = parse_action(each.action);
      const double start = each.start - begin, end = each.end - begin;
      ran.makespan = std::max(ran.makespan, end);
      if (updates(action.kind)) {
        rank.busy += end - start;
        rank.update += end - start;
      } else {
        add_compute(rank, action, start, end, plan.costs);
      }
    }
  }
  double busy = 0;
  for (const RankTimeline& rank : ran.ranks) {
    busy += rank.busy;
    picture.live.push_back(live_curve(rank, plan.costs));
  }
  if (ran.makespan > 0)
    ran.bubble_fraction =
        std::max(0.0, 1 - busy / (ran.makespan * static_cast<double>(ran.ranks.size())));
  picture.pairs = pairs_of(plan.program, ran);
  picture.subtitle = formatted("{}, {}% idle", time_text(picture.basis, ran.makespan),
                               fixed(100 * ran.bubble_fraction, 1));
  return picture;
}

}  // namespace sluice
