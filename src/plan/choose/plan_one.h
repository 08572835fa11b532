// Plans a single candidate.
#pragma once

#include <cstdint>
#include <string>

#include "plan/choose/candidates.h"
#include "plan/choose/question.h"

namespace sluice::detail {

// No cut of a candidate fits into memory_per_rank. Sizes are in bytes.
class NoCutFits : public Error {
 public:
  NoCutFits(std::int64_t smallest, std::int64_t limit);
  std::int64_t smallest() const { return smallest_; }

 private:
  std::int64_t smallest_;
};
// Returns an Error(kMemory).
Error memory_error(const std::string& what, std::int64_t smallest, std::int64_t limit);

// Throws RefusedSchedule with the first violation.
void require_proof(const Program& program, VerifyReport report, const std::string& subject);

// Places, cuts and schedules, but does not lower. Of the program, sets only the mesh. Throws
// plan_pipeline()'s errors and NoCutFits.
Plan draft_one(Question& question, const Candidate& candidate);

// Lowers, verifies and predicts, using each stage's StageContent::backward. Call it again if these
// change. Throws plan_pipeline()'s errors.
Plan finish_plan(Plan plan);

// Returns a draft on which the run calls finish_plan() once its modules exist. With "auto"
// the plan is already complete. Throws plan_pipeline()'s errors.
Plan draft_plan(ModelSpec model, const PipelineOptions& options);

}  // namespace sluice::detail
