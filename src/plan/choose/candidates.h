// Lists the schedules that the planner may try: the user's choice, or all candidates of
// auto_schedule.
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
  std::vector<std::string> notes = {};    // choices made for the user and options that were ignored
};

// The candidate if auto_schedule is off: the schedule in the options, or a default that suits the
// stages. Throws Error(kUsage), and RefusedSchedule if the user's own schedule is invalid.
Candidate asked_candidate(const Question& question);

// With stages_per_rank = 0, the partition options decide.
Candidate named_candidate(const Question& question, const ScheduleInfo& schedule,
                          int stages_per_rank);
// The values of stages_per_rank to try with a schedule.
std::vector<int> stages_to_try(const Question& question, const ScheduleInfo& schedule);

Candidate searched_candidate(const Question& question, Schedule schedule);

}  // namespace sluice::detail
