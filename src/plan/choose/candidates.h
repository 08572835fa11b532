// The candidates that may be tried: one schedule by name or of the caller's, or those that
// auto_schedule looks at.
//
// Does not own: the plan of a candidate (plan_one.h), the choice of the best (best.h).
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/choose/question.h"

namespace sluice::detail {

struct Candidate {
  PartitionOptions partition;             // how many stages, and where; num_ranks is set
  std::optional<ScheduleName> name = {};  // none: `own`
  std::optional<Schedule> own = {};       // proven
  std::string said_by = {};               // the option that names it; "": none does
  std::vector<std::string> notes = {};    // what was chosen, or gave way
};

// The candidate of options without auto_schedule: the schedule that they name or hold, else the one
// that suits the stages. Throws Error(kUsage), and RefusedSchedule for one of the caller's.
Candidate asked_candidate(const Question& question);

// A schedule of the table with so many stages a rank; 0: as the options of the partition have it.
Candidate named_candidate(const Question& question, const ScheduleInfo& schedule,
                          int stages_per_rank);
// The numbers of stages a rank to try with a schedule.
std::vector<int> stages_to_try(const Question& question, const ScheduleInfo& schedule);

// A schedule that was searched for.
Candidate searched_candidate(const Question& question, Schedule schedule);

}  // namespace sluice::detail
