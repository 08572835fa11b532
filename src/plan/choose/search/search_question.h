// `sluice schedule --search`: compares named schedules with an order found by search.
#pragma once

#include <cstdint>
#include <memory>
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
  int stages_per_rank = 0;    // 0: as in the costs, or try 1 and 2
  std::string stage_to_rank;  // "loop", "v" or a list; "": loop, also v for 2 stages per rank
  std::string layout;         // a split in another trainer's notation (layout_text.h); "": by costs
  std::optional<double> max_bytes;
  std::int64_t effort = SearchOptions().effort;  // per stage map
};

struct ScheduleAnswer {
  Schedule schedule;
  Simulation simulation;
  VerifyReport report;
  std::string refusal;                              // why the schedule cannot be used, or ""
  std::shared_ptr<const Partition> partition = {};  // null: the costs are of stages, not layers
};

// Returns the peak bytes of any rank, or 0 if unknown.
double peak_of(const ScheduleAnswer& answer);

struct SearchResult {
  std::vector<ScheduleAnswer> named;
  std::optional<ScheduleAnswer> found;  // the searched schedule, verified; none if nothing fits
  std::optional<std::size_t> best_named;
  bool is_better = false;
  std::optional<double> max_bytes;
  ModelSpec model;  // of the costs, if they are those of layers
  std::vector<std::string> notes;
};

// Throws Error(kUsage) for an unsuitable stage map or number of stages, or if max_bytes is set but
// the costs have no bytes.
SearchResult search_with_costs(const ScheduleQuestion& question, const Costs& costs);
// The file has stage costs (read_costs) or layer times (read_layer_times), which are split into
// stages first.
SearchResult search_with_file(const ScheduleQuestion& question, const std::string& path);
// The file has costs of layers, measured by sluice or elsewhere (layer_costs.h).
SearchResult search_with_layer_costs(const ScheduleQuestion& question, const std::string& path);

// Returns an Error(kMemory) naming the schedule that needs least, if no schedule fits.
std::optional<Error> search_shortage(const SearchResult& result);

}  // namespace sluice
