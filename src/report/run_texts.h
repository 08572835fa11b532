// Texts of a run beside its steps: where a rank is, how far the first step is, what was predicted
// and what came.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/step_pace.h"
#include "sluice/plan.h"

namespace sluice {

// "rank 1 (stages 1, 2)" (base/places.h).
std::string place_of_rank(const Plan& plan, int rank);

// "3.2104 nats, 4.6316 bits"
std::string nats_and_bits(double nats);

// "note: 12.0% of the first step after 26s, 3m10s to go"; what is to go is left out while the share
// says too little.
std::string first_step_note(double share, double seconds);

// Lines, each with its end, of: stages that did not split their backward, and the prediction with
// that; predicted memory beside the largest peak of every rank, in bytes; the step time that a plan
// of measured times expected beside what came, "" where there is nothing to compare.
std::string unsplit_stages_text(const Plan& plan, const std::vector<int>& stages);
std::string peak_memory_text(const Plan& plan, const std::vector<std::int64_t>& peaks);
std::string step_time_text(const Plan& plan, const StepTimesSeen& seen);

}  // namespace sluice
