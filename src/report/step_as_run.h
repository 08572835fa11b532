#pragma once

#include <string>
#include <vector>

#include "plan/flight_record.h"
#include "report/picture.h"
#include "sluice/plan.h"

namespace sluice {

// A computation of a rank, without the wait before it.
struct RecordedInstruction {
  std::string action;         // in the notation of a schedule's CSV
  double start = 0, end = 0;  // seconds since 1970
};

// Returns the computations of the rank's latest program run, as far back as the record goes.
std::vector<RecordedInstruction> ran_instructions(const FlightRecord& record);

// `ranks` has every rank of the run, but only the first replica is drawn. An overlapped pair's time
// is divided between forward and backward as in the plan. Returns an empty picture if a drawn rank
// has no record.
Picture picture_of_recorded_step(const std::string& title, const Plan& plan,
                                 const std::vector<std::vector<RecordedInstruction>>& ranks);

}  // namespace sluice
