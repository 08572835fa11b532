// Checks that stages compute only between UNSHARD and RESHARD, if parameters are sharded or the
// program has either.
#include "base/format.h"
#include "plan/verify/verification.h"

namespace sluice::detail {
namespace {

class Sharding {
 public:
  explicit Sharding(Verification& v)
      : v_(v), gathered_at_(static_cast<std::size_t>(v.program.num_stages()), kDropped) {}

  void check_rank(int rank) {
    rank_ = rank;
    const std::vector<Action>& row = v_.program.ranks[rank];
    for (int index = 0; index < static_cast<int>(row.size()); ++index) {
      const Action& action = row[index];
      if (action.kind == ActionKind::kUnshard)
        unshard(index, action.stage);
      else if (action.kind == ActionKind::kReshard)
        reshard(index, action.stage);
      else
        for_each_half(action, [&](const Action& half) { use(index, half.stage); });
    }
    for (const Action& action : row) {
      if (action.kind == ActionKind::kUnshard) finish(action.stage);
    }
  }

 private:
  // A stage's state is one of these values, or the index of the UNSHARD that gathered it.
  static constexpr int kDropped = -1;
  static constexpr int kAssumed = -2;  // a missing UNSHARD was reported, so report no more

  bool is_ours(int stage) const { return v_.program.stage_map.rank_of(stage) == rank_; }

  void unshard(int index, int stage) {
    if (!is_ours(stage)) return;
    if (gathered_at_[stage] >= 0) {
      v_.report(
          rank_, index,
          "the stage is gathered already, by " + quote(v_.program, rank_, gathered_at_[stage]));
    }
    gathered_at_[stage] = index;
  }

  void reshard(int index, int stage) {
    if (!is_ours(stage)) return;
    if (gathered_at_[stage] == kDropped) v_.report(rank_, index, "the stage is not gathered");
    gathered_at_[stage] = kDropped;
  }

  void use(int index, int stage) {
    if (!is_ours(stage) || gathered_at_[stage] != kDropped) return;
    v_.report(rank_, index,
              formatted("stage {} is not gathered: no {} since it was dropped", stage,
                        quote(Action::make(ActionKind::kUnshard, stage))));
    gathered_at_[stage] = kAssumed;
  }

  void finish(int stage) {
    if (!is_ours(stage) || gathered_at_[stage] < 0) return;
    v_.report(rank_, gathered_at_[stage],
              "no " + quote(Action::make(ActionKind::kReshard, stage)) + " drops it again");
    gathered_at_[stage] = kDropped;
  }

  Verification& v_;
  int rank_ = 0;
  std::vector<int> gathered_at_;
};

}  // namespace

void check_sharding(Verification& v) {
  const bool has_shards = v.program.mesh.size(Axis::kDpShard) > 1 && updates(v.program);
  if (!has_shards && !holds(v.program, ActionKind::kUnshard) &&
      !holds(v.program, ActionKind::kReshard)) {
    return;
  }
  Sharding sharding(v);
  for (int rank = 0; rank < v.program.num_ranks(); ++rank) sharding.check_rank(rank);
}

}  // namespace sluice::detail
