// The plan of one candidate, straight: placed, cut, scheduled; lowered, proven, predicted.
//
// Does not own: the list of candidates (candidates.h), the choice among them (best.h).
// Thread-safety: pure functions, but for the question's.
#pragma once

#include <cstdint>
#include <string>

#include "plan/choose/candidates.h"
#include "plan/choose/question.h"

namespace sluice::detail {

// No cuts of a candidate fit into memory_per_rank.
class NoCutFits : public Error {
 public:
  // Bytes: what the smallest of those that were looked at needs, and the limit.
  NoCutFits(std::int64_t smallest, std::int64_t limit);
  std::int64_t smallest() const { return smallest_; }

 private:
  std::int64_t smallest_;
};
// Error(kMemory): what needs too much, the bytes of its smallest, and the limit.
Error memory_error(const std::string& what, std::int64_t smallest, std::int64_t limit);

// Throws RefusedSchedule with the first violation.
void require_proof(const Program& program, VerifyReport report, const std::string& subject);

// Placed, cut and scheduled: all but program (of which the mesh is set), proof, simulation and
// prediction. Throws as plan_pipeline(), NoCutFits among it.
Plan draft_one(Question& question, const Candidate& candidate);

// Lowers, proves and predicts, by what the stages of the partition have to compute
// (StageContent::backward). A finished plan may be finished again, when that is otherwise than was
// thought. Throws as plan_pipeline().
Plan finish_plan(Plan plan);

// draft_one() of what the options ask for, which a run finishes when its modules exist. With
// auto_schedule the whole plan, as the choice needs it. Throws as plan_pipeline().
Plan draft_plan(ModelSpec model, const PipelineOptions& options);

}  // namespace sluice::detail
