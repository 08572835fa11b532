// Implements `sluice schedule --search`: compares the named schedules with a searched order under
// equal costs and memory limit.
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
  int stages_per_rank = 0;    // 0: as in the costs, or 1 and 2 if they do not say
  std::string stage_to_rank;  // "loop", "v" or a list; "": loop, also v for 2 stages per rank
  std::optional<double> max_bytes;
  std::int64_t effort = SearchOptions().effort;  // for each stage map
};

struct ScheduleAnswer {
  Schedule schedule;
  Simulation simulation;  // includes transfers
  VerifyReport report;    // for the program with transfers
  std::string refusal;    // why the schedule is unusable; "" if usable
};

// Peak bytes over all ranks, or 0 if the costs contain no bytes.
double peak_of(const ScheduleAnswer& answer);

struct SearchResult {
  std::vector<ScheduleAnswer> named;
  std::optional<ScheduleAnswer> found;  // verified; none if no order fits into memory
  std::optional<std::size_t> best_named;
  // True if `found` is faster than every usable named schedule.
  bool is_better = false;
  std::optional<double> max_bytes;
};

// Throws Error(kUsage) if the stage map does not fit, if max_bytes is set but the costs contain no
// bytes, or if the costs are for another number of stages.
SearchResult search_with_costs(const ScheduleQuestion& question, const Costs& costs);
// The file holds stage costs (read_costs) or layer times (read_layer_times). Layers are split into
// stages first.
SearchResult search_with_file(const ScheduleQuestion& question, const std::string& path);

// If nothing was found, returns an Error(kMemory) naming the schedule that needs the least memory.
std::optional<Error> search_shortage(const SearchResult& result);

}  // namespace sluice
