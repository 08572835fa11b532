// Plans a single candidate.
#pragma once

#include <cstdint>
#include <string>

#include "plan/choose/candidates.h"
#include "plan/choose/question.h"

namespace sluice::detail {

// No cut of a candidate fits into memory_per_rank.
class NoCutFits : public Error {
 public:
  // In bytes.
  NoCutFits(std::int64_t smallest, std::int64_t limit);
  std::int64_t smallest() const { return smallest_; }

 private:
  std::int64_t smallest_;
};
// Error(kMemory). Both numbers are in bytes.
Error memory_error(const std::string& what, std::int64_t smallest, std::int64_t limit);

// Throws RefusedSchedule with the first violation.
void require_proof(const Program& program, VerifyReport report, const std::string& subject);

// Places, cuts and schedules. Sets the program's mesh, but no other part of the program, proof,
// simulation or prediction. Throws plan_pipeline()'s errors and NoCutFits.
Plan draft_one(Question& question, const Candidate& candidate);

// Lowers, verifies and predicts, using each stage's StageContent::backward. If those change later,
// the finished plan can be finished again. Throws plan_pipeline()'s errors.
Plan finish_plan(Plan plan);

// A run finishes this draft once its modules exist. With auto_schedule the plan is complete
// already. Throws plan_pipeline()'s errors.
Plan draft_plan(ModelSpec model, const PipelineOptions& options);

}  // namespace sluice::detail
