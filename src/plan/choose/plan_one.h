// Plans one candidate schedule.
#pragma once

#include <cstdint>
#include <string>

#include "plan/choose/candidates.h"
#include "plan/choose/question.h"

namespace sluice::detail {

// No cut of the model fits into memory_per_rank under this schedule. Sizes are in bytes.
class NoCutFits : public Error {
 public:
  NoCutFits(std::int64_t smallest, std::int64_t limit);
  std::int64_t smallest() const { return smallest_; }

 private:
  std::int64_t smallest_;
};
Error memory_error(const std::string& what, std::int64_t smallest, std::int64_t limit);

// Throws RefusedSchedule with the first violation.
void require_proof(const Program& program, VerifyReport report, const std::string& subject);

// Places stages, cuts the model and builds the schedule, but lowers no program. Throws
// plan_pipeline()'s errors and NoCutFits.
Plan draft_one(Question& question, const Candidate& candidate);

// Lowers the schedule to a program, verifies it and predicts time and memory. Call it again if any
// StageContent::backward changes. Throws plan_pipeline()'s errors.
Plan finish_plan(Plan plan);

// Returns an unfinished plan, unless the schedule is "auto". The run calls finish_plan() once its
// modules exist. Throws plan_pipeline()'s errors.
Plan draft_plan(ModelSpec model, const PipelineOptions& options);

}  // namespace sluice::detail
