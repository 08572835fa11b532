// Decides that a rank hangs: it waits for no other rank, and its instruction takes much longer than
// expected, that is, than this kind of instruction has ever taken on its stage.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "plan/flight_record.h"
#include "sluice/parts/action.h"

namespace sluice {

struct HangLimits {
  using Duration = std::chrono::steady_clock::duration;
  // Time beyond the expected until the rank counts as hung, and until the run is ended.
  Duration named{std::chrono::seconds(5)}, ended{std::chrono::seconds(100)};
  // For instructions that have not run before: assumed expected time, and time until the run is
  // ended.
  Duration floor{std::chrono::seconds(60)}, ended_unknown{std::chrono::seconds(300)};
};

enum class HangVerdict : std::uint8_t { kNone, kHangs, kIsOver };

class HangJudge {
 public:
  using Duration = HangLimits::Duration;

  explicit HangJudge(const HangLimits& limits) : limits_(limits) {}

  void learn(const Action& action, double seconds);
  // `running` is empty if the rank waits or is idle. `counted` is SilenceClock time. Returns each
  // verdict once per instruction.
  HangVerdict look(const std::optional<RunningAction>& running, Duration counted);

  const RunningAction& instruction() const { return *at_; }
  Duration stay() const { return stay_; }
  std::optional<Duration> expected() const { return expected_of(at_->action); }

 private:
  using Kind = std::pair<ActionKind, int>;
  static Kind kind_of(const Action& action) { return {action.kind, action.stage}; }
  std::optional<Duration> expected_of(const Action& action) const;

  const HangLimits limits_;
  std::map<Kind, Duration> longest_;
  std::optional<RunningAction> at_;
  Duration since_{0}, stay_{0};
  HangVerdict given_ = HangVerdict::kNone;
};

}  // namespace sluice
