// Pictures of schedules: one lane per rank, time from left to right. Files are identical on every
// machine and load nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "report/candidates_output.h"
#include "sluice/program.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"

namespace sluice {

struct LivePoint {
  double time = 0, live = 0;
};

struct Picture {
  std::string title, subtitle;
  Simulation simulation;
  TimeBasis basis;
  // [rank]: activations in memory, each until its backward has finished.
  std::vector<std::vector<LivePoint>> live = {};
  bool live_in_bytes = false;
  // [rank]: index of the first action of each overlapped pair.
  std::vector<std::vector<int>> pairs = {};
  bool critical_path = false;
  // End of the time axis and width in pixels; 0: automatic. Pictures with equal values can be
  // compared.
  double axis_end = 0, lane_width = 0;
  // For an invalid program.
  std::vector<Violation> violations = {};
};

// Scales all times so that the step takes `makespan`, in `unit`.
void stretch(Picture& picture, double makespan, const std::string& unit);

Picture picture_of(const std::string& title, const Program& program, const Simulation& simulation,
                   const Costs& costs, const TimeBasis& basis);
std::vector<std::vector<int>> pairs_of(const Program& program, const Simulation& simulation);
// Every instruction takes one slot.
Picture picture_of_refused(const std::string& title, const Program& program,
                           const VerifyReport& report);

// With several thousand actions, each pixel column shows only one.
std::string picture_svg(const Picture& picture);
std::string picture_html(const Picture& picture);
// Chrome's trace format. Units other than seconds are shown as milliseconds.
std::string picture_trace(const Picture& picture);
// Returns SVG, HTML or trace, by the ending of `file`. Throws Error(kUsage) naming `option` for
// other endings.
std::string picture_as(const std::string& file, const Picture& picture, const std::string& option);
void require_picture_ending(const std::string& file, const std::string& option);

// Activations in memory over time, in bytes if the costs have sizes, otherwise as a count.
std::vector<LivePoint> live_curve(const RankTimeline& rank, const Costs& costs);
bool knows_bytes(const Costs& costs);

Json timeline_json(const Program& program, const Simulation& simulation, const Costs& costs);

namespace detail {

using Rgb = std::array<int, 3>;
// Colours at least 50 apart in CIELAB, 30 for protan and deutan eyes, 25 for tritan eyes.
const std::vector<std::pair<ActionKind, Rgb>>& picture_colors();

}  // namespace detail
}  // namespace sluice
