// The output for the schedules that a plan was chosen from, and for a comparison of them all.
//
// Does not own: the candidates (plan/choose).
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "sluice/plan.h"

namespace sluice {

// The basis of expected times.
struct TimeBasis {
  std::string unit;         // Plan::time_unit
  bool measured = false;    // times are measured seconds, not counted costs
  bool replicated = false;  // reductions are among the actions that take no time
};
TimeBasis basis_of(const Plan& plan);
// "12.3 ms", "0.412 GFLOP", "37".
std::string time_text(const TimeBasis& basis, double time);
// " (measured)": the source of the times, as far as the reader has to know it.
std::string basis_text(const TimeBasis& basis);

// "2 x 16 tokens", or "2 rows" of a model whose rows have no length.
std::string microbatch_text(const ModelSpec& model, const MicrobatchShape& shape);

// A table, and rows of JSON: docs/schedules.md.
std::string candidates_text(const std::vector<ScheduleCandidate>& candidates,
                            const TimeBasis& basis, int width);
Json candidates_json(const std::vector<ScheduleCandidate>& candidates);

// All schedules at every number of stages a rank, the fastest first, those that cannot be taken
// behind, in the order of their table.
struct Comparison {
  std::vector<ScheduleCandidate> candidates;  // taken: the fastest
  std::optional<std::size_t> asked;           // the one that the configuration names
  TimeBasis basis;
  std::optional<std::int64_t> memory_per_rank;
  std::string subject;  // "llama on 4 ranks, 8 microbatches of 1 x 512 tokens"
  std::vector<std::string> notes;
};
std::string comparison_text(const Comparison& comparison, int width);
std::string comparison_json(const Comparison& comparison);

}  // namespace sluice
