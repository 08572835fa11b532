// The schedules that the planner tries.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/choose/question.h"

namespace sluice::detail {

struct Candidate {
  PartitionOptions partition;             // num_ranks is set
  std::optional<ScheduleName> name = {};  // if none, `own` is set
  std::optional<Schedule> own = {};       // verified
  std::string said_by = {};               // option to blame in errors, or ""
  std::vector<std::string> notes = {};
};

// Used unless the schedule is "auto": the schedule in the options, or a suitable default. Throws
// Error(kUsage), and RefusedSchedule for an invalid schedule of the user's.
Candidate asked_candidate(const Question& question);

// With stages_per_rank = 0, the partition options decide the number of stages.
Candidate named_candidate(const Question& question, const ScheduleInfo& schedule,
                          int stages_per_rank);
std::vector<int> stages_to_try(const Question& question, const ScheduleInfo& schedule);

Candidate searched_candidate(const Question& question, Schedule schedule);

}  // namespace sluice::detail
