// The coloured grid of a schedule on a terminal.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "sluice/simulate.h"
#include "sluice/verify.h"

namespace sluice {

struct GridOptions {
  bool color = false;  // ANSI colours; the caller decides (tty, NO_COLOR)
  int width = 120;     // columns; a longer grid is cut in the middle of time with a note
};

// Time runs to the right, one row a rank, drawn from a simulated timeline in unit slots. Several
// lines, each ending in '\n'.
std::string draw_grid(const Simulation& simulation, const GridOptions& options = {});

// The instruction rows as they stand (no timing), with an arrow under the slot of each violation
// and the reason beside it. For programs that cannot be simulated.
std::string draw_violations(const Program& program, const VerifyReport& report,
                            const GridOptions& options = {});

}  // namespace sluice
