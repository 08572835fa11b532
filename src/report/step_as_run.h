#pragma once

#include <string>
#include <vector>

#include "plan/flight_record.h"
#include "report/picture.h"
#include "sluice/plan.h"

namespace sluice {

// A computation of a rank, without the waiting before it.
struct RecordedInstruction {
  std::string action;         // as in a schedule's CSV
  double start = 0, end = 0;  // seconds since 1970
};

// Returns the instructions of the rank's last pass, as far back as the record goes.
std::vector<RecordedInstruction> ran_instructions(const FlightRecord& record);

// `ranks` is indexed by the run's ranks, but only the first replica is drawn. A pair is one record,
// which is divided in the plan's proportions. Returns an empty picture if a drawn rank has no
// record.
Picture picture_of_recorded_step(const std::string& title, const Plan& plan,
                                 const std::vector<std::vector<RecordedInstruction>>& ranks);

}  // namespace sluice
