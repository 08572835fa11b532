// The judgement that a rank hangs: it is in an instruction, waits for nobody, and has been there
// for longer than the instruction is expected to take.
//
// An instruction is expected to take the longest that its kind took on its stage so far, in this
// run; one that was not seen yet, a floor.
//
// Owns: the judgement of one rank. Does not own: looking and telling (command/hang_watch.h), clocks
// (every call is given the time). Thread-safety: for one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "report/flight_record.h"
#include "sluice/parts/action.h"

namespace sluice {

struct HangLimits {
  using Duration = std::chrono::steady_clock::duration;
  // Times beyond what is expected: after the first the rank hangs, after the second the run ends.
  Duration named{std::chrono::seconds(5)}, ended{std::chrono::seconds(100)};
  // The time that an instruction gets of which nothing is known.
  Duration floor{std::chrono::seconds(60)}, ended_unknown{std::chrono::seconds(300)};
};

enum class HangVerdict : std::uint8_t { kNone, kHangs, kIsOver };

class HangJudge {
 public:
  using Duration = HangLimits::Duration;

  explicit HangJudge(const HangLimits& limits) : limits_(limits) {}

  // Takes every instruction that has ended.
  void learn(const Action& action, double seconds);
  // running: where the rank computes now, nothing where it waits or nothing runs. counted: the time
  // of the judge (judge_clock.h). Each verdict is given once for every stay in an instruction.
  HangVerdict look(const std::optional<RunningAction>& running, Duration counted);

  // The last look: where the rank has been, for how long, and what was expected, if anything.
  const RunningAction& instruction() const { return *at_; }
  Duration stay() const { return stay_; }
  std::optional<Duration> expected() const { return expected_of(at_->action); }

 private:
  using Kind = std::pair<ActionKind, int>;  // a kind of action on a stage
  static Kind kind_of(const Action& action) { return {action.kind, action.stage}; }
  std::optional<Duration> expected_of(const Action& action) const;

  const HangLimits limits_;
  std::map<Kind, Duration> longest_;
  std::optional<RunningAction> at_;
  Duration since_{0}, stay_{0};
  HangVerdict given_ = HangVerdict::kNone;
};

}  // namespace sluice
