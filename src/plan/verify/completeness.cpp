// Checks that every stage has one F and one backward (B, or I and W) for each microbatch, except
// for parts that drop_frozen() removed.
#include "base/format.h"
#include "plan/verify/verification.h"

namespace sluice::detail {
namespace {

// Reports ranges of missing microbatches. Call has() in ascending order.
class Gaps {
 public:
  Gaps(Verification& v, int stage, ActionKind kind) : v_(&v), stage_(stage), kind_(kind) {
    const int count = v.program.num_microbatches;
    if (stage < v.program.num_stages())
      all_pass_ = v.program.flow.num_passing(stage, count) == count;
  }

  void has(int microbatch) {
    report_up_to(microbatch);
    next_ = microbatch + 1;
  }
  void finish() { report_up_to(v_->program.num_microbatches); }

 private:
  bool passes(int microbatch) const {
    return all_pass_ || v_->program.flow.passes(stage_, microbatch);
  }

  void report_up_to(int end) {
    while (next_ < end) {
      if (!passes(next_)) {
        ++next_;
        continue;
      }
      int last = all_pass_ ? end - 1 : next_;
      while (last + 1 < end && passes(last + 1)) ++last;
      report(last);
      next_ = last + 1;
    }
  }
  void report(int last) {
    const std::string what = kind_ == ActionKind::kForward ? "forward" : "backward";
    const std::string which = last == next_
                                  ? formatted("microbatch {} never runs ", next_)
                                  : formatted("microbatches {} to {} never run ", next_, last);
    v_->report_absent(v_->program.stage_map.rank_of(stage_), Action::make(kind_, stage_, next_),
                      formatted("{}{} on stage {}", which, what, stage_));
  }

  Verification* v_;
  int stage_;
  ActionKind kind_;
  bool all_pass_ = true;
  int next_ = 0;
};

void check_backward(Verification& v, int stage, int microbatch, const InstructionIndices& at) {
  const int rank = v.program.stage_map.rank_of(stage);
  const std::int32_t whole = at[ActionKind::kBackward];
  const std::int32_t input = at[ActionKind::kBackwardInput];
  const std::int32_t weight = at[ActionKind::kBackwardWeight];
  const auto present = [](std::int32_t index) { return index != InstructionIndices::kAbsent; };
  if (whole >= 0) {
    const auto repeats = [&](std::int32_t later, std::int32_t earlier) {
      v.report(rank, later, "repeats the backward of " + quote(v.program, rank, earlier));
    };
    const std::int32_t first = input >= 0 && (weight < 0 || input < weight) ? input : weight;
    if (first >= 0 && first < whole) return repeats(whole, first);
    for (const std::int32_t half : {input, weight}) {
      if (half >= 0) repeats(half, whole);
    }
  } else if (input >= 0 && !present(weight) && !present(whole) &&
             has_weight_gradients(v.program.backward_of(stage))) {
    v.report_absent(rank, Action::backward_weight(stage, microbatch),
                    "never runs, though " + quote(v.program, rank, input) + " does");
  } else if (weight >= 0 && !present(input) && !present(whole)) {
    v.report(rank, weight, "runs without " + quote(Action::backward_input(stage, microbatch)));
  }
}

class StageSweep {
 public:
  explicit StageSweep(Verification& v) : v_(v) {}

  void visit(int stage, int microbatch, const InstructionIndices& at) {
    while (stage_ < stage) advance();
    seen_ = true;
    if (!is_ours()) return;
    const auto present = [&](ActionKind kind) { return at[kind] != InstructionIndices::kAbsent; };
    if (present(ActionKind::kForward)) forward_.has(microbatch);
    if (!has_backward(stage)) return;
    if (present(ActionKind::kBackward) || present(ActionKind::kBackwardInput) ||
        present(ActionKind::kBackwardWeight)) {
      backward_.has(microbatch);
      check_backward(v_, stage, microbatch, at);
    }
  }

  void advance() {
    if (is_ours() && !seen_) {
      v_.report_rank(v_.program.stage_map.rank_of(stage_),
                     formatted("owns stage {} and never runs it", stage_));
    } else if (is_ours()) {
      forward_.finish();
      if (has_backward(stage_)) backward_.finish();
    }
    ++stage_;
    seen_ = false;
    forward_ = Gaps(v_, stage_, ActionKind::kForward);
    backward_ = Gaps(v_, stage_, ActionKind::kBackward);
  }

  int stage() const { return stage_; }

 private:
  bool has_backward(int stage) const {
    return v_.program.backward_of(stage) != StageBackward::kNone;
  }
  // Whether to report this stage's missing actions. False if its rank has no instructions at all,
  // which is reported once for the rank.
  bool is_ours() const {
    const int rank = v_.program.stage_map.rank_of(stage_);
    return rank >= 0 && rank < v_.program.num_ranks() && !v_.rank_is_bare[rank];
  }

  Verification& v_;
  int stage_ = 0;
  bool seen_ = false;
  Gaps forward_{v_, 0, ActionKind::kForward}, backward_{v_, 0, ActionKind::kBackward};
};

}  // namespace

void check_completeness(Verification& v) {
  if (v.program.update_only) return;  // check_reductions() checks these programs
  StageSweep sweep(v);
  v.instructions.for_each([&](StageMicrobatch of, const InstructionIndices& at) {
    if (!at.empty()) sweep.visit(of.stage, of.microbatch, at);
  });
  while (sweep.stage() < v.program.num_stages()) sweep.advance();
}

}  // namespace sluice::detail
