#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "sluice/plan.h"

namespace sluice {

struct TimeBasis {
  std::string unit;
  bool measured = false;  // true: seconds from measurements; false: estimated costs
  bool replicated =
      false;  // some actions are collectives between replicas, which take no time here
};
TimeBasis basis_of(const Plan& plan);
// Returns "12.3 ms", "0.412 GFLOP" or "37".
std::string time_text(const TimeBasis& basis, double time);
// Returns how times were found, such as " (measured)".
std::string basis_text(const TimeBasis& basis);

// Returns "2 x 16 tokens", or "2 rows" if rows have no length.
std::string microbatch_text(const ModelSpec& model, const MicrobatchShape& shape);

std::string candidates_text(const std::vector<ScheduleCandidate>& candidates,
                            const TimeBasis& basis, int width);
Json candidates_json(const std::vector<ScheduleCandidate>& candidates);

// Fastest first, unusable ones last.
struct Comparison {
  std::vector<ScheduleCandidate> candidates;  // the fastest is marked `taken`
  std::optional<std::size_t> asked;           // index of the configured schedule
  TimeBasis basis;
  std::optional<std::int64_t> memory_per_rank;
  std::string subject;  // "llama on 4 ranks, 8 microbatches of 1 x 512 tokens"
  std::vector<std::string> notes;
};
std::string comparison_text(const Comparison& comparison, int width);
std::string comparison_json(const Comparison& comparison);

}  // namespace sluice
