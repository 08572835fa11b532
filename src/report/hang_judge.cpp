#include "report/hang_judge.h"

#include <algorithm>

namespace sluice {

void HangJudge::learn(const Action& action, double seconds) {
  const auto took = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  Duration& longest = longest_[kind_of(action)];
  longest = std::max(longest, took);
}

std::optional<HangJudge::Duration> HangJudge::expected_of(const Action& action) const {
  const auto found = longest_.find(kind_of(action));
  return found == longest_.end() ? std::nullopt : std::optional(found->second);
}

HangVerdict HangJudge::look(const std::optional<RunningAction>& running, Duration counted) {
  if (!running) {
    at_.reset();
    return HangVerdict::kNone;
  }
  if (!at_ || at_->pass != running->pass || at_->index != running->index) {
    at_ = running;
    since_ = counted;
    given_ = HangVerdict::kNone;
  }
  stay_ = counted - since_;
  const std::optional<Duration> known = expected();
  const Duration named = known.value_or(limits_.floor) + limits_.named;
  const Duration over = known ? *known + limits_.ended : limits_.ended_unknown;
  const HangVerdict verdict = stay_ > over    ? HangVerdict::kIsOver
                              : stay_ > named ? HangVerdict::kHangs
                                              : HangVerdict::kNone;
  if (verdict <= given_) return HangVerdict::kNone;
  given_ = verdict;
  return verdict;
}

}  // namespace sluice
