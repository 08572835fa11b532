// The window has the stages with the nearest next uses. Before every compute action, drops stages
// that left the window, then gathers those that entered it, in order of use:
//
//   0F0 1F0 2F0 2B0 1B0 0B0, two at once:
//   0UNSHARD 1UNSHARD 0F0 0RESHARD 2UNSHARD 1F0 2F0 2B0 2RESHARD 0UNSHARD 1B0 1RESHARD 0B0 0RESHARD
//
// After an action only its own stages can leave the window, because all other next uses are nearer
// now. Takes O(n log(stages of the rank)).
#include <algorithm>
#include <array>
#include <queue>
#include <utility>

#include "base/format.h"
#include "plan/neighbours.h"
#include "plan/passes/passes.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Position of a stage's use: 2 * instruction, plus 1 for the backward of an overlapped pair.
using Use = std::int64_t;
constexpr Use kNever = -1;
constexpr int kNone = -1;

// The gathered stages at each instruction of a rank. `slots` maps stages to dense numbers and is
// all -1 between ranks.
class Window {
 public:
  Window(const std::vector<Action>& row, int max_active, std::vector<int>& slots)
      : row_(row), max_active_(max_active), slots_(slots), following_(2 * row.size(), kNever) {
    for (Use i = static_cast<Use>(row.size()) - 1; i >= 0; --i) {
      const Uses uses = uses_of(i);
      for (int k = 0; k < uses.count; ++k) following_[2 * i + k] = next_use(uses.stages[k]);
      for (int k = 0; k < uses.count; ++k) next_[slots_[uses.stages[k]]] = 2 * i + k;
    }
    for (std::size_t slot = 0; slot < stages_.size(); ++slot) {
      waiting_.emplace(next_[slot], stages_[slot]);
    }
    gathered_.assign(stages_.size(), false);
  }
  ~Window() {
    for (const int stage : stages_) slots_[stage] = -1;
  }

  std::vector<Action> walk() {
    std::vector<Action> result;
    result.reserve(row_.size() + row_.size() / 8 + 8);
    std::vector<int> leaving, entering;
    for (Use i = 0; i < static_cast<Use>(row_.size()); ++i) {
      if (is_compute(row_[i].kind)) {
        fill(entering);
        emit_changes(leaving, entering, result);
      }
      result.push_back(row_[i]);
      leave(i, leaving);
    }
    emit_changes(leaving, entering, result);
    return result;
  }

 private:
  struct Uses {
    int count = 0;
    std::array<int, 2> stages{};
  };
  Uses uses_of(Use i) const {
    const Action& action = row_[i];
    if (!is_compute(action.kind)) return {};
    const bool two = action.kind == ActionKind::kOverlap && action.backward_stage != action.stage;
    return {two ? 2 : 1, {action.stage, action.backward_stage}};
  }

  // Returns the stage's next use found so far. Adds a slot for a new stage.
  Use next_use(int stage) {
    int& slot = slots_[stage];
    if (slot >= 0) return next_[slot];
    slot = static_cast<int>(stages_.size());
    stages_.push_back(stage);
    next_.push_back(kNever);
    return kNever;
  }

  // Adds stages up to the limit. If the last is an overlapped pair's forward stage, also adds its
  // backward stage.
  void fill(std::vector<int>& entering) {
    while (num_counted_ < max_active_) {
      const bool extra_is_next =
          extra_ != kNone && (waiting_.empty() || next_[slots_[extra_]] < waiting_.top().first);
      if (extra_is_next)
        extra_ = kNone;
      else if (!waiting_.empty())
        entering.push_back(gather_next());
      else
        return;
      ++num_counted_;
    }
    if (extra_ == kNone && !waiting_.empty() && follows_gathered_half(waiting_.top().first)) {
      extra_ = gather_next();
      entering.push_back(extra_);
    }
  }

  int gather_next() {
    const int stage = waiting_.top().second;
    waiting_.pop();
    gathered_[slots_[stage]] = true;
    return stage;
  }

  bool follows_gathered_half(Use use) const {
    if (use % 2 == 0) return false;
    const int forward = slots_[row_[use / 2].stage];
    return gathered_[forward] && next_[forward] == use - 1;
  }

  void leave(Use i, std::vector<int>& leaving) {
    const Uses uses = uses_of(i);
    for (int k = 0; k < uses.count; ++k) {
      const int stage = uses.stages[k], slot = slots_[stage];
      gathered_[slot] = false;
      if (stage == extra_)
        extra_ = kNone;
      else
        --num_counted_;
      leaving.push_back(stage);
      next_[slot] = following_[2 * i + k];
      if (next_[slot] != kNever) waiting_.emplace(next_[slot], stage);
    }
  }

  // A stage in both lists stays gathered.
  static void emit_changes(std::vector<int>& leaving, std::vector<int>& entering,
                           std::vector<Action>& result) {
    std::sort(leaving.begin(), leaving.end());
    for (const int stage : leaving) {
      const auto back = std::find(entering.begin(), entering.end(), stage);
      if (back != entering.end())
        entering.erase(back);
      else
        result.push_back(Action::make(ActionKind::kReshard, stage));
    }
    for (const int stage : entering) result.push_back(Action::make(ActionKind::kUnshard, stage));
    leaving.clear();
    entering.clear();
  }

  using Waiting = std::pair<Use, int>;
  const std::vector<Action>& row_;
  int max_active_;
  std::vector<int>& slots_;
  std::vector<Use> following_;  // [use]: the stage's use after it
  std::vector<int> stages_;     // [slot]
  std::vector<Use> next_;       // [slot]
  std::vector<bool> gathered_;  // [slot]
  int num_counted_ = 0;         // gathered stages, without extra_
  int extra_ = kNone;           // stage beyond the limit, for a pair's backward
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>>
      waiting_;  // stages that are not gathered
};

}  // namespace

Program add_unshard_reshard(Program program, int max_active_stages) {
  if (max_active_stages < 1) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("a limit of {} gathered stages leaves no stage to compute on",
                                   max_active_stages),
                 .remedy = "allow at least 1"});
  }
  detail::require_in_range(program);
  std::vector<int> slots(static_cast<std::size_t>(program.num_stages()), -1);
  for (std::vector<Action>& row : program.ranks) row = Window(row, max_active_stages, slots).walk();
  return program;
}

}  // namespace sluice
