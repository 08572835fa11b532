#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/step_pace.h"
#include "sluice/plan.h"

namespace sluice {

// Returns "rank 1 (stages 1, 2)".
std::string place_of_rank(const Plan& plan, int rank);

// Returns "3.2104 nats, 4.6316 bits".
std::string nats_and_bits(double nats);

// Returns "note: 12.0% of the first step after 26s, 3m10s to go". No estimate while the share is
// small.
std::string first_step_note(double share, double seconds);

// The texts below compare a finished run with its prediction. `peaks` is the measured peak memory
// of each rank in bytes. step_time_text() returns "" if no step was timed.
std::string unsplit_stages_text(const Plan& plan, const std::vector<int>& stages);
std::string peak_memory_text(const Plan& plan, const std::vector<std::int64_t>& peaks);
std::string step_time_text(const Plan& plan, const StepTimesSeen& seen);

}  // namespace sluice
