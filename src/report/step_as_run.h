// A step as it ran: what flight recorders kept of it, and the picture of it.
//
// Does not own: recording (engine/flight_recorder.h), pictures. Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "report/flight_record.h"
#include "report/picture.h"
#include "sluice/plan.h"

namespace sluice {

// Computing of a rank, without the waiting before it.
struct RanInstruction {
  std::string action;         // as in a schedule's CSV
  double start = 0, end = 0;  // seconds since 1970
};

// The compute and update instructions of the step or evaluation that the rank ran last, in order,
// as far as the record goes back.
std::vector<RanInstruction> ran_instructions(const FlightRecord& record);

// By rank of the run, of which the first replica's are drawn. Halves of a pair, which are recorded
// as one, share its time as in the expected step. Times begin with the first instruction. Empty
// where nothing is known of one of these ranks.
Picture picture_of_ran(const std::string& title, const Plan& plan,
                       const std::vector<std::vector<RanInstruction>>& ranks);

}  // namespace sluice
