// Plans a single candidate: places, cuts and schedules its stages, then lowers, verifies and
// predicts the program.
#pragma once

#include <cstdint>
#include <string>

#include "plan/choose/candidates.h"
#include "plan/choose/question.h"

namespace sluice::detail {

// Thrown if no cut of a candidate fits into memory_per_rank.
class NoCutFits : public Error {
 public:
  // Both in bytes: the smallest need found, and the limit.
  NoCutFits(std::int64_t smallest, std::int64_t limit);
  std::int64_t smallest() const { return smallest_; }

 private:
  std::int64_t smallest_;
};
// Error(kMemory). `what` names the item that is too large; the rest is in bytes.
Error memory_error(const std::string& what, std::int64_t smallest, std::int64_t limit);

// Throws RefusedSchedule with the first violation.
void require_proof(const Program& program, VerifyReport report, const std::string& subject);

// Places, cuts and schedules. Leaves out the proof, the simulation, the prediction and the program,
// except for its mesh. Throws as plan_pipeline() does, and NoCutFits.
Plan draft_one(Question& question, const Candidate& candidate);

// Lowers, verifies and predicts the plan, using StageContent::backward of each stage. If those turn
// out to be different later, call it again on the finished plan. Throws as plan_pipeline() does.
Plan finish_plan(Plan plan);

// Drafts the plan for these options. A run finishes the draft once its modules exist. With
// auto_schedule the plan is complete already, because choosing requires it. Throws as
// plan_pipeline() does.
Plan draft_plan(ModelSpec model, const PipelineOptions& options);

}  // namespace sluice::detail
