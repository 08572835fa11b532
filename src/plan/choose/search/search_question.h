// The question and the answer of `sluice schedule --search`: the named schedules and the searched
// order under the same costs and the same limit on memory. Thread-safety: pure functions, but for
// reading files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/choose/search/search.h"
#include "plan/predict/layer_times.h"
#include "sluice/error.h"
#include "sluice/schedule.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"

namespace sluice {

struct ScheduleQuestion {
  int num_ranks = 1, num_microbatches = 1;
  int stages_per_rank = 0;    // 0: those of the costs, else 1 and 2
  std::string stage_to_rank;  // "loop", "v", a list; "": loop, and v where ranks have two stages
  std::optional<double> max_bytes;
  std::int64_t effort = SearchOptions().effort;  // effort of the search on each map
};

struct ScheduleAnswer {
  Schedule schedule;
  Simulation simulation;  // with transfers
  VerifyReport report;    // report of the program with transfers
  std::string refusal;    // why it cannot be taken; "": it can
};

// The most bytes that a rank keeps; 0 where they are not known.
double peak_of(const ScheduleAnswer& answer);

struct SearchResult {
  std::vector<ScheduleAnswer> named;
  std::optional<ScheduleAnswer> found;  // proven; none: no order fits into memory
  std::optional<std::size_t> best_named;
  // Faster than all named ones that can be taken.
  bool is_better = false;
  std::optional<double> max_bytes;
};

// Throws Error(kUsage) for a map that does not fit, for max_bytes with costs that know no bytes,
// and for costs of another number of stages.
SearchResult search_with_costs(const ScheduleQuestion& question, const Costs& costs);
// A file of stages (read_costs), or of layers (read_layer_times), which are split for the ranks.
SearchResult search_with_file(const ScheduleQuestion& question, const std::string& path);

// The error if nothing was found: Error(kMemory), which names what needs least.
std::optional<Error> search_shortage(const SearchResult& result);

}  // namespace sluice
