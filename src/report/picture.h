// Pictures of schedules: a lane a rank, time from left to right.
//
// Owns: the layout, the colours, SVG, the page around it and the trace for Perfetto. Does not own:
// the timeline (simulate.h). The same bytes for the same picture, on every machine; nothing is
// loaded from anywhere. Thread-safety: pure functions.
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

// The live amount on a rank after a change.
struct LivePoint {
  double time = 0, live = 0;
};

struct Picture {
  std::string title, subtitle;
  Simulation simulation;
  TimeBasis basis;  // basis of its times
  // By rank: the forwards whose backward has not run. Their bytes, or their number.
  std::vector<std::vector<LivePoint>> live = {};
  bool live_in_bytes = false;
  // By rank, of its actions in the timeline: the first of the two that an OVERLAP holds.
  std::vector<std::vector<int>> pairs = {};
  bool critical_path = false;
  // The time at the right end of the axis, if that is more than the makespan; the width of the
  // lanes in pixels, 0: by the durations of the actions. Pictures that share both can be compared.
  double axis_end = 0, lane_width = 0;
  // The violations of a refused order, at actions of the timeline.
  std::vector<Violation> violations = {};
};

// Multiplies all times so that the picture takes `makespan` in another unit.
void stretch(Picture& picture, double makespan, const std::string& unit);

// The program as it is expected to run.
Picture picture_of(const std::string& title, const Program& program, const Simulation& simulation,
                   const Costs& costs, const TimeBasis& basis);
// The first of each two actions of a rank that are a pair in the program.
std::vector<std::vector<int>> pairs_of(const Program& program, const Simulation& simulation);
// A program that was refused: every instruction takes one slot, what was found is marked.
Picture picture_of_refused(const std::string& title, const Program& program,
                           const VerifyReport& report);

// One <svg>. Lanes of more than several thousand actions together become a texture: every pixel
// column of a lane shows one action of those that run in it, each about as often as its share.
std::string picture_svg(const Picture& picture);
// A page that draws the picture with a script of its own. The page zooms and pans, keeps the names
// of the ranks and the time axis in sight, numbers the bars that are wide enough, and explains the
// bar under the pointer. It loads nothing.
std::string picture_html(const Picture& picture);
// Chrome's trace format. A unit of time that is no second is shown as a millisecond.
std::string picture_trace(const Picture& picture);
// By the ending of the file: .svg, .html, .json. Throws Error(kUsage) for another one, naming
// `option`.
std::string picture_as(const std::string& file, const Picture& picture, const std::string& option);
void require_picture_ending(const std::string& file, const std::string& option);

// The actions of a rank as they hold memory: bytes where costs know any.
std::vector<LivePoint> live_curve(const RankTimeline& rank, const Costs& costs);
bool knows_bytes(const Costs& costs);

// The numbers behind a picture: rows of the program, the actions and what is live over time, by
// rank (docs/simulate.md).
Json timeline_json(const Program& program, const Simulation& simulation, const Costs& costs);

namespace detail {

using Rgb = std::array<int, 3>;
// The colours of F, I, W, B: at least 50 apart in CIELAB, 30 to protan and deutan, 25 to tritan
// eyes.
const std::vector<std::pair<ActionKind, Rgb>>& picture_colors();

}  // namespace detail
}  // namespace sluice
