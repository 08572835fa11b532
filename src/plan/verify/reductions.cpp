// Checks that every reduction runs once, after its gradients, and that the update runs last.
// Reductions that the program lacks are not required.
#include <algorithm>
#include <set>
#include <utility>

#include "plan/verify/verification.h"

namespace sluice::detail {
namespace {

constexpr int kNowhere = -1;

// Without a reduction, the weights of replicas would diverge.
bool must_reduce(const Program& program) {
  const bool replicas =
      program.mesh.size(Axis::kDpReplicate) > 1 || program.mesh.size(Axis::kDpShard) > 1;
  return replicas && updates(program);
}

// True if gradients are reduced per microbatch.
bool reduces_single(const Program& program) {
  for (const std::vector<Action>& row : program.ranks) {
    for (const Action& action : row) {
      if (action.kind == ActionKind::kReduceGrad && action.microbatch >= 0) return true;
    }
  }
  return false;
}

struct StageEnd {
  int compute = kNowhere;
  int gradient = kNowhere;
  int reduced = kNowhere;
  int tied = kNowhere;
  int norm = kNowhere;
  int update = kNowhere;
};

struct RowEnd {
  // Indices of a rank's last instruction of each kind, or the first for loss, outputs, norm and
  // optimizer.
  int compute = kNowhere;
  int weight_gradient = kNowhere;
  int last_output = kNowhere;  // last forward of a last stage
  int reduction = kNowhere;    // REDUCE_GRAD or REDUCE_TIED
  int loss = kNowhere;
  int outputs = kNowhere;
  int norm = kNowhere;
  int optimizer = kNowhere;
  int update = kNowhere;
};

class Reductions {
 public:
  explicit Reductions(Verification& v)
      : v_(v),
        with_reduce_grad_(must_reduce(v.program) || holds(v.program, ActionKind::kReduceGrad)),
        with_loss_(holds(v.program, ActionKind::kReduceLoss)),
        with_outputs_(holds(v.program, ActionKind::kGatherOutputs)),
        with_norm_(holds(v.program, ActionKind::kReduceNorm)),
        with_optimizer_(holds(v.program, ActionKind::kOptimizerStep)),
        with_updates_(holds(v.program, ActionKind::kUpdate)),
        with_single_(reduces_single(v.program)),
        stages_(static_cast<std::size_t>(v.program.num_stages())),
        tied_(v.program.tie_groups.size(), kNowhere) {}

  void check_rank(int rank) {
    rank_ = rank;
    end_ = {};
    read_row();
    check_stages();
    check_ties();
    check_end();
    check_updates();
    forget_row();
  }

 private:
  const std::vector<Action>& row() const { return v_.program.ranks[rank_]; }
  bool is_ours(int stage) const { return v_.program.stage_map.rank_of(stage) == rank_; }
  bool knows_tie(int group) const { return group >= 0 && group < static_cast<int>(tied_.size()); }

  bool leaves_the_model(const Action& half) const {
    return half.kind == ActionKind::kForward && half.microbatch >= 0 &&
           half.microbatch < v_.program.num_microbatches && is_ours(half.stage) &&
           v_.program.flow.is_last(half.stage, half.microbatch);
  }

  void once(int& first, int index) {
    if (first == kNowhere)
      first = index;
    else
      v_.report(rank_, index, "runs a second time");
  }

  void read_row() {
    for (int index = 0; index < static_cast<int>(row().size()); ++index) {
      const Action& action = row()[index];
      for_each_half(action, [&](const Action& half) {
        end_.compute = index;
        if (is_ours(half.stage)) stages_[half.stage].compute = index;
        if (leaves_the_model(half)) end_.last_output = index;
        if (!makes_weight_gradient(half.kind)) return;
        end_.weight_gradient = index;
        if (is_ours(half.stage)) stages_[half.stage].gradient = index;
        if (with_single_) unreduced_.insert({half.stage, half.microbatch});
      });
      switch (action.kind) {
        case ActionKind::kReduceGrad:
          end_.reduction = index;
          if (is_ours(action.stage)) read_reduction(action, index);
          break;
        case ActionKind::kReduceTied:
          end_.reduction = index;
          if (knows_tie(action.group)) once(tied_[action.group], index);
          read_tie(action, index);
          break;
        case ActionKind::kReduceLoss:
          once(end_.loss, index);
          continue;  // forward-only programs may have it
        case ActionKind::kGatherOutputs:
          once(end_.outputs, index);
          continue;
        case ActionKind::kReduceNorm:
          once(end_.norm, index);
          break;
        case ActionKind::kPartialNorm:
          if (is_ours(action.stage)) once(stages_[action.stage].norm, index);
          break;
        case ActionKind::kUpdate:
          end_.update = index;
          if (is_ours(action.stage)) once(stages_[action.stage].update, index);
          break;
        case ActionKind::kOptimizerStep:
          once(end_.optimizer, index);
          break;
        default:
          continue;
      }
      if (v_.program.forward_only) v_.report(rank_, index, "the program is forward only");
    }
  }

  void read_tie(const Action& action, int index) {
    if (!knows_tie(action.group)) return;
    for (const int stage : v_.program.tie_groups[action.group].stages) {
      if (is_ours(stage)) stages_[stage].tied = std::max(stages_[stage].tied, index);
    }
  }

  void read_reduction(const Action& action, int index) {
    if (!with_single_) {
      once(stages_[action.stage].reduced, index);
      return;
    }
    stages_[action.stage].reduced = index;
    if (action.microbatch < 0)
      v_.report(rank_, index, "others reduce one microbatch, this one all");
    else if (!unreduced_.erase({action.stage, action.microbatch}))
      v_.report(rank_, index, "runs before the gradient that it reduces, or a second time");
  }

  void must_follow(int index, int earlier) {
    if (index == kNowhere || earlier < index) return;
    v_.report(rank_, index, "runs before " + quote(v_.program, rank_, earlier));
  }

  void check_stages() {
    if (!with_reduce_grad_ || v_.program.forward_only) return;
    for (const auto& [stage, microbatch] : unreduced_)
      absent(Action::make(ActionKind::kReduceGrad, stage, microbatch));
    unreduced_.clear();
    if (with_single_) return;
    for (const int stage : stages_of_row()) {
      const StageEnd& end = stages_[stage];
      if (end.reduced != kNowhere)
        must_follow(end.reduced, end.gradient);
      else if (end.gradient != kNowhere)
        absent(Action::make(ActionKind::kReduceGrad, stage));
    }
  }

  // Returns this rank's stages that have instructions (in an update-only program, all), ascending.
  std::vector<int> stages_of_row() const {
    std::vector<int> stages;
    for (const Action& action : row()) {
      for_each_half(action, [&](const Action& half) { stages.push_back(half.stage); });
      if (ends_stage(action.kind)) stages.push_back(action.stage);
    }
    for (int stage = 0; v_.program.update_only && stage < v_.program.num_stages(); ++stage)
      stages.push_back(stage);
    std::erase_if(stages, [&](int stage) { return !is_ours(stage); });
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    return stages;
  }
  static bool ends_stage(ActionKind kind) {
    return kind == ActionKind::kReduceGrad || kind == ActionKind::kPartialNorm ||
           kind == ActionKind::kUpdate;
  }

  // PARTIAL_NORM must be between the stage's gradients and REDUCE_NORM. UPDATE must follow both and
  // the stage's compute.
  void check_updates() {
    for (const int stage : stages_of_row()) {
      const StageEnd& end = stages_[stage];
      const int gradients = std::max({end.gradient, end.reduced, end.tied});
      must_follow(end.norm, gradients);
      if (end.norm != kNowhere && end_.norm == kNowhere)
        v_.report(rank_, end.norm, "no 'REDUCE_NORM' of this rank uses it");
      else if (end.norm != kNowhere)
        must_follow(end_.norm, end.norm);
      must_follow(end.update,
                  std::max({gradients, end.compute, end_.loss, end_.outputs, end_.norm, end.norm}));
      const bool is_trained = v_.program.update_only
                                  ? has_weight_gradients(v_.program.backward_of(stage))
                                  : end.gradient != kNowhere;
      if (with_updates_ && is_trained && end.update == kNowhere && end_.optimizer == kNowhere)
        absent(Action::make(ActionKind::kUpdate, stage));
    }
  }

  void check_ties() {
    for (int group = 0; group < static_cast<int>(tied_.size()); ++group) {
      const std::vector<int>& stages = v_.program.tie_groups[group].stages;
      const bool is_member =
          std::any_of(stages.begin(), stages.end(), [&](int stage) { return is_ours(stage); });
      if (tied_[group] != kNowhere && !is_member) {
        v_.report(rank_, tied_[group], "no stage of this rank is in the group");
      } else if (tied_[group] != kNowhere) {
        for (const int stage : stages) {
          if (!is_ours(stage)) continue;
          must_follow(tied_[group], std::max(stages_[stage].gradient, stages_[stage].reduced));
        }
      } else if (is_member && stages.size() > 1 && !row().empty() && !v_.program.forward_only) {
        absent(Action::reduce_tied(group));
      }
    }
  }

  void check_end() {
    must_follow(end_.loss, end_.last_output);
    must_follow(end_.outputs, end_.last_output);
    must_follow(end_.norm, std::max(end_.weight_gradient, end_.reduction));
    must_follow(end_.optimizer, std::max({end_.compute, end_.reduction, end_.loss, end_.outputs,
                                          end_.norm, end_.update}));
    if (with_loss_ && end_.loss == kNowhere) absent(Action::make(ActionKind::kReduceLoss));
    if (with_outputs_ && end_.outputs == kNowhere) absent(Action::make(ActionKind::kGatherOutputs));
    if (with_norm_ && end_.norm == kNowhere) absent(Action::make(ActionKind::kReduceNorm));
    if (with_optimizer_ && end_.optimizer == kNowhere && !with_updates_) {
      absent(Action::make(ActionKind::kOptimizerStep));
    }
  }

  void absent(const Action& action) {
    const bool alone = action.kind == ActionKind::kReduceGrad && !holds(v_.program, action.kind);
    v_.report_absent(rank_, action,
                     alone ? "never runs, though there are several replicas"
                           : "never runs on this rank, though others of its kind do");
  }

  void forget_row() {
    for (const Action& action : row()) {
      const auto forget = [&](int stage) {
        if (is_ours(stage)) stages_[stage] = {};
      };
      for_each_half(action, [&](const Action& half) { forget(half.stage); });
      if (ends_stage(action.kind)) forget(action.stage);
      if (action.kind == ActionKind::kReduceTied && knows_tie(action.group)) {
        tied_[action.group] = kNowhere;
        for (const int stage : v_.program.tie_groups[action.group].stages) forget(stage);
      }
    }
  }

  Verification& v_;
  const bool with_reduce_grad_, with_loss_, with_outputs_, with_norm_, with_optimizer_;
  const bool with_updates_, with_single_;
  int rank_ = 0;
  RowEnd end_;
  std::set<std::pair<int, int>> unreduced_;  // {stage, microbatch} without REDUCE_GRAD
  std::vector<StageEnd> stages_;             // [stage]; reset after each rank
  std::vector<int> tied_;                    // [tie group]
};

}  // namespace

void check_reductions(Verification& v) {
  Reductions reductions(v);
  for (int rank = 0; rank < v.program.num_ranks(); ++rank) reductions.check_rank(rank);
}

}  // namespace sluice::detail
