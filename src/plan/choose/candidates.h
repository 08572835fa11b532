// The schedules that the planner compares.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/choose/question.h"

namespace sluice::detail {

struct Candidate {
  PartitionOptions partition;             // num_ranks is set
  std::optional<ScheduleName> name = {};  // unset: use `own`
  std::optional<Schedule> own = {};       // the user's or a searched schedule, verified
  std::string said_by = {};               // option that error messages name, or ""
  std::vector<std::string> notes = {};
};

// Returns the schedule in the options, or a default, unless it is "auto". Throws Error(kUsage), and
// RefusedSchedule for an invalid user-supplied schedule.
Candidate asked_candidate(const Question& question);

// With stages_per_rank = 0, the partition options determine the number of stages.
Candidate named_candidate(const Question& question, const ScheduleInfo& schedule,
                          int stages_per_rank);
std::vector<int> stages_to_try(const Question& question, const ScheduleInfo& schedule);

Candidate searched_candidate(const Question& question, Schedule schedule);

}  // namespace sluice::detail
